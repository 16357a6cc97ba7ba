"""Runs one command with all that it starts, and leaves none of it behind.

    python -m feddiv.deploy.keeper COMMAND [ARGUMENT ...]

The keeper's standard input is a string to whoever started it. When it is cut, on purpose or because
that process is no more (by SIGKILL even), the keeper ends the command and all its descendants, and
then itself. The same when the command ends. Flower puts helpers into sessions of their own, so a
signal to the process group would miss them: the keeper looks for descendants, and on Linux adopts
those that lost their parent. It uses the standard library only, so that it starts at once.
"""

import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType

GRACE = 5.0  # seconds between asking and killing
_TICK = 0.1
# prctl's numbers in <linux/prctl.h>.
_SET_PARENT_DEATH_SIGNAL, _SET_CHILD_SUBREAPER = 1, 36


class Keeper:
    """One command and its descendants."""

    def __init__(self, command: Sequence[str]) -> None:
        self._asked = False
        # A handler, not SIG_IGN: the command would inherit that.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # Under `nohup` a hang-up is ignored, and stays so, here and in the command.
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._ask)
        adopt_orphans(True)
        self.code: int | None = None
        # Held on to, though only its number is used: when it is dropped it waits for the command
        # by itself, and takes the exit code of one that ended at once.
        self._child = begin(command)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self._asked = True

    def keep(self) -> int:
        """Wait for an end of any kind, clear up, and give the command's exit code."""
        while self.code is None and not self._asked and self.wait():
            self._reap()
        deadline = time.monotonic() + GRACE
        told: set[int] = set()
        while others := self._descendants():
            late = time.monotonic() > deadline
            for process in others if late else others - told:
                _send(process, signal.SIGKILL if late else signal.SIGTERM)
            told |= others
            time.sleep(_TICK / 2)
        # The command may have ended since it was last looked for, and one with threads counts as
        # dead a little before it can be taken leave of.
        self._reap()
        while self.code is None and time.monotonic() < deadline + GRACE:
            time.sleep(_TICK / 2)
            self._reap()
        return 128 + signal.SIGKILL if self.code is None else self.code

    def wait(self) -> bool:
        """Wait a moment; whether the command is still wanted."""
        return not _cut()

    def ended(self, process: int, code: int) -> None:
        """A child has ended, or an orphan that the keeper adopted."""
        if process == self._child.pid:
            self.code = code

    def _reap(self) -> None:
        """Take leave of the dead, or they stay in the table."""
        while True:
            try:
                process, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if process == 0:
                return
            code = os.waitstatus_to_exitcode(status)
            self.ended(process, 128 - code if code < 0 else code)

    def _descendants(self) -> set[int]:
        self._reap()
        parents = _parents()
        found, new = set[int](), {os.getpid()}
        while new:
            new = {process for process, parent in parents.items() if parent in new} - found
            found |= new
        return found


def begin(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a command in a session of its own."""
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=_die_with_parent
    )


def adopt_orphans(wanted: bool) -> None:
    """Whether descendants that lose their parent become children of this process (on Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, int(wanted))


def _die_with_parent() -> None:
    """Between fork and exec: should the keeper be killed, the command goes with it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)


def _cut() -> bool:
    """Wait a moment; whether standard input has ended."""
    readable, _, _ = select.select([0], [], [], _TICK)
    return bool(readable) and os.read(0, 1024) == b""


def _send(process: int, number: int) -> None:
    with suppress(ProcessLookupError):  # it was quicker
        os.kill(process, number)


def _parents() -> dict[int, int]:
    """The parent of every living process."""
    if sys.platform != "linux":
        return _parents_by_ps()
    parents = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # "pid (name) state parent …", and a name may hold anything.
            fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue  # it has just ended
        if fields[0] not in (b"Z", b"X"):
            parents[int(entry.name)] = int(fields[1])
    return parents


def _parents_by_ps() -> dict[int, int]:
    lister = subprocess.Popen(["ps", "-A", "-o", "pid=,ppid=,stat="], stdout=subprocess.PIPE)
    listed, _ = lister.communicate()
    lines = (line.split() for line in listed.decode().splitlines())
    return {
        int(process): int(parent)
        for process, parent, state in lines
        if not state.startswith("Z") and int(process) != lister.pid
    }


if __name__ == "__main__":
    try:
        keeper = Keeper(sys.argv[1:])
    except OSError as problem:
        sys.exit(f"{sys.argv[1]}: {problem.strerror}")
    sys.exit(keeper.keep())

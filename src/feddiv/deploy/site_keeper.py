"""A site's SuperNode, and beside it the process that answers its messages."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from feddiv.core.errors import UserError
from feddiv.deploy.keeper import Keeper, adopt_orphans, begin
from feddiv.flower.warm_visits import UNSUPPORTED, pause

SUPERNODE = "flower-supernode"
_APP = "from feddiv.flower.warm_visits import main; main()"
_HERE = "127.0.0.1"
_TICK = 0.2
# Seconds before the app's process is started again: twice as long each time, until one has lasted.
_SOONEST, _LATEST, _LASTED = 0.5, 60.0, 60.0
_TRIES = 5  # that many in a row that did not last, and Flower does it by itself
_USAGE = 2  # exit code of a SuperNode that does not know an option

# Options of Flower's that do not go with an app that is kept loaded: its process speaks to the
# SuperNode on this machine without TLS, and has its packages already.
_NOT_HERE = (
    "--allow-runtime-dependency-installation",
    "--isolation",
    *(
        f"--{older}ssl-{file}file"
        for older in ("", "appio-")
        for file in ("cert", "key", "ca-cert")
    ),
)


class SiteKeeper(Keeper):
    """A SuperNode and the app's process; when the SuperNode ends, or is to end, nothing is left.

    The app's process is started again when it ends. Visits are copies of it: one that is going on
    is adopted here (on Linux, the only place where this is used), and goes on.
    """

    def __init__(self, supernode: Sequence[str], port: int) -> None:
        super().__init__(supernode)
        self.supported = True
        self._port = port
        # Not by -m: where a module is the main one, Python warns of forks beside threads of BLAS,
        # which has seen to it.
        self._app = [sys.executable, "-P", "-c", _APP, f"{_HERE}:{port}", str(os.getpid())]
        self._running: subprocess.Popen[bytes] | None = None
        self._pause, self._due, self._failed = _SOONEST, 0.0, 0

    def _begin(self) -> None:
        self._begun = time.monotonic()
        self._running = begin(self._app)
        self._due = float("inf")

    def wait(self) -> bool:
        """Wait a moment, and start the app's process when it is time, first with the SuperNode."""
        time.sleep(_TICK)
        if time.monotonic() >= self._due and (self._running or self._listens()):
            self._begin()
        return self.supported

    def _listens(self) -> bool:
        """Whether the SuperNode is there; nobody else is, as `claimed` has seen to it."""
        with socket.socket() as calling:
            return calling.connect_ex((_HERE, self._port)) == 0

    def ended(self, process: int, code: int) -> None:
        """When it was the app's process, the next one is due soon."""
        super().ended(process, code)
        if self._running is None and self.code == _USAGE:  # `--isolation process`, it may be
            self.supported = False
        if self._running is None or process != self._running.pid or self._asked:
            return
        if code == UNSUPPORTED:
            self.supported = False
            return
        if time.monotonic() - self._begun > _LASTED:
            self._pause, self._failed = _SOONEST, 0
        self._failed += 1
        if self._failed == _TRIES:
            say(f"the app's process ended with exit code {code}, as {_TRIES} in a row did soon")
            self.supported = False
            return
        say(f"the app's process ended with exit code {code} and is started again")
        self._due = time.monotonic() + self._pause
        self._pause = min(2 * self._pause, _LATEST)

    @property
    def asked(self) -> bool:
        """Whether somebody told it to end."""
        return self._asked


def keep_site(arguments: Sequence[str], port: int) -> int:
    """Run a SuperNode until it ends or is told to; its exit code.

    Its Runtime API is on this machine only, at `port`. Where the app cannot be kept loaded, the
    SuperNode starts a process for each message, as Flower does by itself.
    """
    if shutil.which(SUPERNODE) is None:
        raise UserError(f"{SUPERNODE} is not on the PATH; activate the environment of feddiv")
    refuse(arguments)
    pause()  # said here, not in the app's process
    plain = [SUPERNODE, *arguments, "--host", _HERE, "--port", str(port)]
    if sys.platform == "linux":
        with claimed(port):
            keeper = SiteKeeper([*plain, "--isolation", "process"], port)
            code = keeper.keep()
        if keeper.asked or keeper.supported:
            return code
    say("every message starts a process of its own here, as Flower does it by itself")
    sys.stdout.flush()
    adopt_orphans(False)  # it outlives exec, and Flower takes no leave of orphans
    os.execvp(SUPERNODE, plain)


@contextmanager
def claimed(port: int) -> Iterator[None]:
    """Refuse a port that somebody has: the app's process would take the messages of another site.

    Two sites that start at once find it free alike. So a name goes with it (in the kernel, in no
    folder), which one of them has as long as it runs.
    """
    with socket.socket(socket.AF_UNIX) as name, socket.socket() as trial:
        try:
            name.bind(f"\0feddiv-site-{port}")
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as Flower's server does
            trial.bind((_HERE, port))
        except OSError as problem:
            raise UserError(
                f"port {port}: {os.strerror(problem.errno or 0)}; give a free one with --port, or "
                "FEDDIV_SITE_PORT for supernode.sh"
            ) from None
        trial.close()
        yield


def refuse(arguments: Sequence[str]) -> None:
    """Stop at an option that cannot be kept, also where it is shortened as Flower allows."""
    for argument in arguments:
        given = argument.partition("=")[0]
        if len(given) > len("--a") and any(option.startswith(given) for option in _NOT_HERE):
            raise UserError(
                f"{given}: not with feddiv deploy supernode; start {SUPERNODE} itself for it"
            )


def say(line: str) -> None:
    """A line in the log of the site's SuperNode."""
    print(f"feddiv: {line}", flush=True)

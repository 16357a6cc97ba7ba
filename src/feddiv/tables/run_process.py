"""One run of a sweep, in a process of its own: the same command that a person would type."""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from feddiv.core.disk_room import free_bytes, in_bytes
from feddiv.core.dotted import flat
from feddiv.core.import_path import is_import_path
from feddiv.core.terminal import LINE, shown
from feddiv.tables.sweep_file import SweepJob

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")  # one each: cores are few
SILENT = "it said nothing"
ROOM = 1 << 20  # bytes; where less is free, a run has no room, nor may its log


@dataclass(frozen=True)
class Start:
    """What to start for a job, and where it writes; plain values, so that it can be sent."""

    arguments: tuple[str, ...]  # what follows `feddiv run`
    allow: tuple[str, ...]  # import paths that it names, for a run that goes on
    folder: str

    @classmethod
    def of(cls, job: SweepJob, folder: Path) -> "Start":
        """That of a job, in a folder of its own."""
        values = flat(job.experiment.model_dump(mode="json")).values()
        named = {each for each in values if isinstance(each, str) and is_import_path(each)}
        return cls(tuple(job.arguments), tuple(sorted(named)), str(folder))

    @property
    def log(self) -> Path:
        """What it says on stderr."""
        return Path(f"{self.folder}.log")

    @property
    def command(self) -> list[str]:
        """Begin the run in its folder, or go on with the one that is there."""
        # -P: a module in the working folder is not taken for one that is installed.
        feddiv = [sys.executable, "-P", "-m", "feddiv"]
        alone = ["--workers", "0", "--quiet"]  # as many runs as cores: workers are in the way
        if not (Path(self.folder) / "config.toml").is_file():
            return [*feddiv, "run", *self.arguments, "--out", self.folder, *alone]
        allow = [word for path in self.allow for word in ("--allow", path)]
        return [*feddiv, "resume", self.folder, *allow, *alone]

    def process(self) -> "subprocess.Popen[bytes]":
        """Start it. It dies with the process that called, however that one ends (Linux).

        It has a session of its own: Ctrl-C is for the sweep, which tells its runs to stop.
        """
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("wb") as log:
            return subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                env={**os.environ, **dict.fromkeys(THREADS, "1")},
                start_new_session=True,
                preexec_fn=_die_with(os.getpid()),
            )

    def said(self) -> str:
        """The last line that it wrote."""
        try:
            lines = self.log.read_text(errors="replace").strip().splitlines()
        except OSError:
            lines = []
        if lines:
            return shown(lines[-1].removeprefix("feddiv: ").removeprefix("error: "), LINE)
        free = free_bytes(self.log.parent)
        full = f", and its disk is full ({in_bytes(free)} are free)" if free < ROOM else ""
        return f"{SILENT}{full}"

    def wait(self) -> int:
        """Run it to its end, from wherever it stands; gives the exit code."""
        process = self.process()
        try:
            return process.wait()
        finally:
            end(process, 0)


def _die_with(parent: int) -> Callable[[], None] | None:
    """To be called in the child before its program starts."""
    if sys.platform != "linux":
        return None
    prctl, set_parent_death_signal = ctypes.CDLL(None).prctl, 1

    def prepare() -> None:
        prctl(set_parent_death_signal, signal.SIGKILL)
        if os.getppid() != parent:  # it has died since
            os._exit(1)

    return prepare


def end(process: "subprocess.Popen[bytes]", patience: float) -> None:
    """Let it write a checkpoint and stop; after so many seconds without further asking."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()

"""Where the runs of a sweep are carried out: processes here, or tasks of a Ray cluster."""

import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Final

from feddiv.core.processes import usable_cores
from feddiv.tables.run_process import Start
from feddiv.tables.sweep_file import SweepJob

PATIENCE: Final = 30.0  # seconds that a run has to write its checkpoint when it is stopped


class Runner(ABC):
    """Starts runs and tells which have ended."""

    room: int  # runs at the same time

    @abstractmethod
    def start(self, job: SweepJob, what: Start) -> None:
        """Start a run."""

    @abstractmethod
    def ended(self) -> Mapping[SweepJob, int]:
        """Runs that have ended since it was last asked, with their exit codes."""

    @abstractmethod
    def stop(self) -> None:
        """Stop all runs that are under way; they keep what they have."""


class RunProcesses(Runner):
    """Processes on this machine, each on one core."""

    def __init__(self, room: int | None) -> None:
        self.room = min(room or usable_cores(), usable_cores())
        self._running: dict[SweepJob, subprocess.Popen[bytes]] = {}

    def start(self, job: SweepJob, what: Start) -> None:
        """A process for it."""
        self._running[job] = what.process()

    def ended(self) -> Mapping[SweepJob, int]:
        """Those whose process has."""
        codes = {job: process.poll() for job, process in self._running.items()}
        over = {job: code for job, code in codes.items() if code is not None}
        for job in over:
            del self._running[job]
        return over

    def stop(self) -> None:
        """All are asked first, so that they write their checkpoints at the same time."""
        until = time.monotonic() + PATIENCE
        try:
            for process in self._running.values():
                if process.poll() is None:
                    process.terminate()
            for process in self._running.values():
                try:
                    process.wait(max(until - time.monotonic(), 0))
                except subprocess.TimeoutExpired:
                    process.kill()
        finally:  # a second Ctrl-C does not wait
            for process in self._running.values():
                process.kill()
                process.wait()
            self._running.clear()

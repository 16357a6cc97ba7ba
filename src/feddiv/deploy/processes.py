"""Several commands at once, each with a keeper and a log; when the block ends, so have they all."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from feddiv.deploy.keeper import GRACE

_TICK = 0.2


class Failed(RuntimeError):
    """A process ended or hung; the message names its log."""


@dataclass(frozen=True)
class Kept:
    """A command that runs, or ran."""

    name: str
    log: Path
    keeper: subprocess.Popen[bytes]

    @property
    def code(self) -> int | None:
        """Its exit code, or None while it runs."""
        return self.keeper.poll()


class Processes:
    """Starts commands; at the end of the block none of them, and nothing they started, is left."""

    def __init__(self, logs: Path, environment: Mapping[str, str]) -> None:
        self._logs, self._environment = logs, dict(environment)
        self._all: list[Kept] = []
        logs.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> "Processes":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(
        self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> Kept:
        """Run a command until it is stopped; what it says goes to its log."""
        log = self._logs / f"{name}.log"
        return self._keep(name, command, environment, log, log)

    def ask(
        self,
        name: str,
        command: Sequence[str],
        within: float,
        environment: Mapping[str, str] | None = None,
    ) -> str:
        """Run a command that is to end well, and soon; what it said on its standard output."""
        answer = self._logs / f"{name}.out"
        answer.unlink(missing_ok=True)
        kept = self._keep(name, command, environment, answer, self._logs / f"{name}.log")
        self.wait_until(lambda: kept.code is not None, within, kept, "did not end", ends=kept)
        self.finish(kept)
        return answer.read_text(encoding="utf-8", errors="replace")

    def wait_until(
        self,
        ready: Callable[[], bool],
        within: float,
        of: Kept,
        trouble: str,
        *,
        ends: Kept | None = None,
    ) -> None:
        """Wait for a condition; all but `ends` must go on running meanwhile."""
        deadline = time.monotonic() + within
        while not ready():
            self.check(ends)
            if time.monotonic() > deadline:
                raise Failed(f"{of.name} {trouble} within {within:g} s; its log: {of.log}")
            time.sleep(_TICK)

    def check(self, ends: Kept | None = None) -> None:
        """Raise if one has ended that should run until it is stopped."""
        for kept in self._all:
            if kept is not ends and kept.code is not None:
                raise Failed(f"{kept.name} ended with exit code {kept.code}; its log: {kept.log}")

    def finish(self, kept: Kept) -> None:
        """Take leave of a command that has ended; raise if it did not end well."""
        _cut(kept)
        self._all.remove(kept)
        if kept.code != 0:
            raise Failed(f"{kept.name} failed with exit code {kept.code}; its log: {kept.log}")

    def stop(self) -> None:
        """End all of them together, and wait until they are gone."""
        # This comes first: whatever happens after it, the keepers do their work.
        for kept in self._all:
            _cut(kept)
        deadline = time.monotonic() + GRACE + 10
        for kept in self._all:
            try:
                kept.keeper.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError):
                    os.kill(kept.keeper.pid, signal.SIGKILL)
                kept.keeper.wait()
        self._all.clear()

    def _keep(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str] | None,
        out: Path,
        log: Path,
    ) -> Kept:
        with out.open("ab") as said, log.open("ab") as complained:
            keeper = subprocess.Popen(
                [sys.executable, "-P", "-m", "feddiv.deploy.keeper", *command],
                stdin=subprocess.PIPE,
                stdout=said,
                stderr=complained,
                env=self._environment | dict(environment or {}),
                start_new_session=True,  # Ctrl-C is for this process, which then tells the keepers
            )
        kept = Kept(name, log, keeper)
        self._all.append(kept)
        return kept


def _cut(kept: Kept) -> None:
    """Let go of the string that a keeper holds on to."""
    if kept.keeper.stdin is not None:
        with suppress(OSError):
            kept.keeper.stdin.close()

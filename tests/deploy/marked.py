"""Processes of a test, of any descent, known by a mark in their environment."""

import os
import signal
import uuid
from pathlib import Path
from typing import Self

MARK = "FEDDIV_TEST_MARK"


class Marked:
    """What is started with `environment`, and all that it starts."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.mark = uuid.uuid4().hex
        self.environment = environment | {MARK: self.mark}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        for process in self.find():  # only after a failure of the test
            os.kill(process, signal.SIGKILL)

    def find(self, *, program: str = "") -> list[int]:
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if (
                    entry.name.isdigit()
                    and f"{MARK}={self.mark}".encode() in (entry / "environ").read_bytes()
                    and program.encode() in (entry / "cmdline").read_bytes()
                ):
                    found.append(int(entry.name))
            except OSError:
                continue  # it has just ended
        return found

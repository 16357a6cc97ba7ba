"""A sweep that can be crashed: no run that has ended is run again, and all rows are there once."""

import hashlib
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import IO
from unittest.mock import patch

from crash_contract import Fingerprint, Job, Target
from crash_run import TIMES, RunTarget
from forks import forked

from feddiv.tables import run_process
from feddiv.tables.rows import read_rows

TINY = """
settings = ["quickstart"]
methods = ["feddiv", "fedavg"]
seeds = [0, 1]

[options]
rounds = 3
warmup.iterations = 1
data.images = 80
data.test_images = 50
train.epochs = 1
clients.count = 3
checkpoint.seconds = 0
"""


class ForkedRun:
    """What a sweep needs of `subprocess.Popen`, without another interpreter and its imports."""

    def __init__(
        self, command: list[str], *, stderr: IO[bytes], preexec_fn: Job, **rest: object
    ) -> None:
        from feddiv.cli import main

        arguments = command[command.index("feddiv") + 1 :]
        verb = arguments.index("--out") if "--out" in arguments else 0
        folder = Path(arguments[verb + 1])
        last = "report.html" if arguments[0] == "resume" else "summary.json"
        if (folder / last).exists():
            raise AssertionError(f"a run that has ended is begun again: {arguments}")

        def begin() -> None:
            os.setsid()  # as `start_new_session` has it
            preexec_fn()

        with open(os.devnull, "w") as nothing:
            self.pid = forked(lambda: main(arguments), nothing, stderr, begin)
        self.code: int | None = None

    def poll(self) -> int | None:
        """Its exit code, once it has ended."""
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if pid else None
        return self.code

    def wait(self, patience: float = 60.0) -> int:
        """The same as soon as there is one."""
        until = time.monotonic() + patience
        while (code := self.poll()) is None:
            if time.monotonic() > until:
                raise subprocess.TimeoutExpired("run", patience)
            time.sleep(0.002)
        return code

    def terminate(self) -> None:
        """SIGTERM, if it has not ended."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL, if it has not ended."""
        self._send(signal.SIGKILL)

    def _send(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


class SweepTarget(Target):
    """`feddiv sweep`, and the same command again."""

    says = 1 << 11  # a line for each run

    def __init__(self) -> None:
        self.run = RunTarget()
        self.file = Path()

    @contextmanager
    def ready(self) -> Iterator[None]:
        """A sweep's file, and everything is imported."""
        with self.run.ready(), TemporaryDirectory() as folder:
            self.file = Path(folder) / "tiny.toml"
            self.file.write_text(TINY)
            yield

    def job(self, folder: Path) -> Job:
        """The command as somebody types it; its runs are forked from it."""
        from feddiv.cli import main

        stand_in = SimpleNamespace(**{**vars(subprocess), "Popen": ForkedRun})

        def sweep() -> None:
            with patch.object(run_process, "subprocess", stand_in):
                main(["sweep", str(self.file), "--out", str(folder), "--jobs", "2", "--quiet"])

        return sweep

    def signs(self, folder: Path) -> object:
        """Logs, which are made anew whenever a run is begun or goes on."""
        return {file.name: file.stat().st_mtime_ns for file in _logs(folder)}

    def result(self, folder: Path) -> Fingerprint:
        """Rows but for times and dates, and all that its runs have left."""
        found = {"files": " ".join(sorted(file.name for file in folder.iterdir()))}
        rows = [row.as_json() for row in read_rows(folder / "rows.jsonl")]
        for row in rows:
            del row["date"]
            row["summary"] = {key: row["summary"][key] for key in _lasting(row["summary"])}
        said = sorted(json.dumps(row, sort_keys=True) for row in rows)  # two run at once
        found["rows"] = f"{len(rows)} " + hashlib.sha256("\n".join(said).encode()).hexdigest()
        for home in sorted((folder / "runs").glob("*/*")):
            if home.is_dir():
                left = self.run.result(home)
                found |= {f"{home.name} {name}": left[name] for name in left}
            else:
                found[home.name] = "a file that nobody needs"
        return found

    def tear(self, folder: Path, rng: Random) -> None:
        """The last row is missing by half or altogether, or one more is begun; so are journals.

        A row was on the disk if a run was begun after it. Of a run without a row there is all that
        it takes to make one.
        """
        for home in sorted((folder / "runs").glob("*/*/")):
            self.run.tear(home, rng)
        rows = folder / "rows.jsonl"
        if not rows.exists():
            return
        content = rows.read_bytes()
        start = content.rstrip(b"\n").rfind(b"\n") + 1
        begun = max((file.stat().st_mtime_ns for file in _logs(folder)), default=0)
        if begun <= rows.stat().st_mtime_ns and start < len(content):
            os.truncate(rows, rng.randrange(start, len(content)))
        else:
            line = b'{"setting": "quickstart", "method": "fedavg", "seed": 7, "summary": {}'
            torn = line[: rng.randrange(1, len(line))]
            with rows.open("ab") as opened:
                opened.write(torn if rng.random() < 0.5 else bytes(len(torn)))

    def tells(self, said: str) -> bool:
        """A run that failed has a line, the others went on; or the sweep itself has one."""
        lines = [line for line in said.splitlines() if not line.startswith("Rows ")]
        if not lines or "Traceback" in said:
            return False
        if failed := re.fullmatch(r"feddiv: ([0-9]) of the runs failed:", lines[0]):
            lines = lines[1:]
            whole = len(lines) == int(failed[1])
        else:
            whole = len(lines) == 1
        return whole and all(re.search(FULL, line) for line in lines)


FULL = "No space left|File too large|disk is full"


def _logs(folder: Path) -> list[Path]:
    return sorted((folder / "runs").glob("*/*.log"))


def _lasting(summary: dict[str, object]) -> list[str]:
    return [key for key in summary if key not in TIMES]

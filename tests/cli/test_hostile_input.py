"""Input that was made to do harm: one line, exit code 2, soon, and nothing left behind."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli import fork_server, hostile_files
from tests.cli.hostile_cases import Case, cases

SECONDS = 20.0  # on a busy machine
LONGEST = 2000  # characters of the line that a user gets

CASES = cases()


class Forks:
    """Runs commands in processes forked from one that has loaded the package."""

    def __init__(self, hostile: Path, scratch: Path) -> None:
        self.hostile, self.scratch, self.count = hostile, scratch, 0
        self.server = subprocess.Popen(
            [sys.executable, fork_server.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.server.stdout is not None
        assert self.server.stdout.readline() == "ready\n"

    def run(self, case: Case) -> dict[str, Any]:
        """Its exit code, None if it hung, what it said and what it left."""
        self.count += 1
        folder = self.scratch / str(self.count)
        folder.mkdir()
        here = str(self.hostile)
        cache = self.scratch / f"{self.count}.cache"
        environment = {"FEDDIV_CACHE": str(cache)} | {
            key: value.replace("{}", here) for key, value in case.environment.items()
        }
        out, err = (self.scratch / f"{self.count}.{kind}" for kind in ("out", "err"))
        task = {
            "arguments": [_bytes(each, here) for each in case.arguments],
            "folder": str(folder),
            "environment": environment,
            "out": str(out),
            "err": str(err),
            "seconds": SECONDS,
        }
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        self.server.stdin.write(json.dumps(task) + "\n")
        self.server.stdin.flush()
        ended: dict[str, Any] = json.loads(self.server.stdout.readline())
        said = {
            kind: file.read_text(errors="replace") for kind, file in (("out", out), ("err", err))
        }
        left = sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
        return ended | said | {"left": left}

    def close(self) -> None:
        """End the server."""
        assert self.server.stdin is not None
        self.server.stdin.close()
        self.server.wait(10)


def _bytes(argument: str, hostile: str) -> str:
    named = argument.replace("{}", hostile, 1) if "{}/" in argument else argument
    return os.fsencode(named).hex()


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory, finished) -> Iterator[Forks]:
    hostile = tmp_path_factory.mktemp("hostile")
    hostile_files.make(hostile, finished.folder)
    forks = Forks(hostile, tmp_path_factory.mktemp("scratch"))
    yield forks
    forks.close()


def test_there_are_many():
    assert len(CASES) > 400
    assert len({(case.arguments, *case.environment.items()) for case in CASES}) == len(CASES)


def _marked(number: int, case: Case) -> Any:
    """A quarter of them in every `make test`; which one says nothing about the case."""
    marks = pytest.mark.full if number % 4 else pytest.mark.slow
    return pytest.param(case, id=case.name[:60].encode("unicode_escape").decode(), marks=marks)


@pytest.mark.parametrize("case", [_marked(*each) for each in enumerate(CASES)])
def test_hostile_input(forks, case):
    ended = forks.run(case)
    line = ended["err"]
    assert ended["code"] is not None, "it hung"
    assert "Traceback" not in line
    assert ended["code"] in case.codes, line[-500:]
    *notes, last = line.splitlines() if ended["code"] else [line]
    assert len(notes) < 30
    assert all(note.startswith("feddiv: ") and len(note) < LONGEST for note in notes)
    if ended["code"] == 2:
        assert last.startswith("feddiv: error: ")
        assert len(last) < LONGEST
        assert ended["left"] == []

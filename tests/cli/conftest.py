"""Commands run in this process, in an empty folder of their own."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import feddiv
from feddiv.cli import main

TINY = ["rounds=3", "warmup.iterations=1", "data.images=200", "train.epochs=1"]


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


Command = Callable[..., Outcome]


@pytest.fixture
def tiny() -> list[str]:
    """Settings of a run of about a second."""
    return list(TINY)


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> Outcome:
        with pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        assert isinstance(end.value.code, int)
        return Outcome(end.value.code, said.out, said.err)

    return call


@pytest.fixture
def refused(command, tmp_path):
    """Call a command that must be refused; gives its one line."""

    def call(*arguments: object) -> str:
        before = _contents(tmp_path)
        outcome = command(*arguments)
        assert outcome.code == 2, outcome.err
        assert outcome.out == ""
        assert outcome.err.count("\n") == 1
        assert outcome.err.startswith("feddiv: error: ")
        assert _contents(tmp_path) == before
        return outcome.err

    return call


def _contents(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> feddiv.Run:
    """A tiny finished run with its comparison."""
    out = tmp_path_factory.mktemp("runs") / "finished"
    return feddiv.run("quickstart", TINY, out=out, workers=0)  # no processes: quicker

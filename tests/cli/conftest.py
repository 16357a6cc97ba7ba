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


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> feddiv.Run:
    """A tiny finished run with its comparison."""
    return feddiv.run("quickstart", TINY, out=tmp_path_factory.mktemp("runs") / "finished")

"""Commands that only read settings load nothing that takes seconds."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # whole runs or processes

# Parts that are only there once the package is really loaded: torch itself may be deferred.
HEAVY = ("torch._C", "sklearn", "scipy", "matplotlib", "pandas", "flwr", "PIL.ImageDraw")
WATCHED = f"""
import atexit, sys
atexit.register(lambda: print("loaded:", [m for m in {HEAVY} if m in sys.modules], file=sys.stderr))
from feddiv.cli import main
main(sys.argv[1:])
"""


def watched(folder: Path, *arguments: str) -> tuple[int, str, list[str]]:
    """Exit code, output, and the lines on stderr; the last says what was loaded."""
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, *arguments], cwd=folder, capture_output=True, text=True
    )
    return done.returncode, done.stdout, done.stderr.splitlines()


@pytest.mark.parametrize(
    ("arguments", "prints"),
    [
        (["show", "quickstart", "rounds=40"], "rounds = 40"),
        (["show", "cifar10-iid-0.8-0.5", "noise.name=pair", "model.name=resnet18"], "resnet18"),
        (["list"], "presets"),
        (["list", "methods"], "feddiv-paper"),
        (["--help"], "resume"),
        (["--version"], "feddiv"),
    ],
)
def test_looking_at_settings(tmp_path: Path, arguments: list[str], prints: str) -> None:
    code, out, lines = watched(tmp_path, *arguments)
    assert code == 0
    assert prints in out
    assert lines[-1] == "loaded: []"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "quikstart"], "did you mean 'quickstart'?"),
        (["run", "round=3"], "did you mean rounds?"),
        (["run", "method.name=fedag"], "did you mean 'fedavg'?"),
        (["run", "data.source=cfar10"], "did you mean 'cifar10'?"),
        (["run", "model.name=resnet"], "did you mean 'resnet"),
        (["run", "noise.rho=2"], "noise.rho=2"),
        (["resume", ".", "round=60"], "did you mean rounds?"),
        (["show", "against=fedavg,fedavg"], "named twice"),
        (["ru"], "No such command 'ru'"),
    ],
)
def test_a_slip_of_the_pen(tmp_path: Path, arguments: list[str], said: str) -> None:
    (tmp_path / "config.toml").write_text("rounds = 30\n")
    code, out, lines = watched(tmp_path, *arguments)
    assert (code, out, len(lines)) == (2, "", 2)
    assert said in lines[0]
    assert lines[1] == "loaded: []"


def test_the_watch_sees_what_is_loaded(tmp_path: Path) -> None:
    """Or the tests above would pass whatever happens."""
    code, _, lines = watched(tmp_path, "run", "data.images=9999", "--out", "x")
    assert code == 2
    assert "torch._C" in lines[-1]


@pytest.mark.parametrize("arguments", [["ru"], ["data", "gett"], ["run", "--worker", "2"]])
def test_a_command_is_suggested_once(command, arguments: list[str]) -> None:
    error = command(*arguments).err
    assert error.count("\n") == 1
    assert error.lower().count("did you mean") == 1

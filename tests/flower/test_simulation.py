"""federation.name=flower_simulation: our loop on Flower's simulation engine."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import feddiv
from feddiv.core.errors import UserError

SETTINGS = {
    "rounds": 4,
    "clients.count": 3,
    "clients.fraction": 1.0,
    "warmup.iterations": 1,
    "train.epochs": 1,
    "data.images": 150,
    "against": [],
}
OWN = "examples.own_method.small_loss:SmallLoss"
SIMULATED = {**SETTINGS, "federation.name": "flower_simulation", "checkpoint.seconds": 0.0}


@pytest.fixture(autouse=True)
def _as_soon_as_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_worker_niceness", "0")  # else they wait for every other process


def started(*arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "feddiv", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def overrides(settings: dict[str, Any]) -> list[str]:
    return [f"{key}={value}" for key, value in settings.items()]


def clients_of(process: "subprocess.Popen[str]") -> list[int]:
    """Processes of the same session, which a signal of the terminal reaches, but for itself."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != process.pid:
            try:
                if os.getsid(int(entry.name)) == process.pid:
                    found.append(int(entry.name))
            except ProcessLookupError:
                continue
    return found


@pytest.mark.full
@pytest.mark.parametrize("method", ["feddiv", "fedcorr", "dividemix", OWN])
def test_same_bits_as_on_this_machine(method: str, tmp_path: Path) -> None:
    settings = {**SIMULATED, "method.name": method}
    command = ["run", "quickstart", *overrides(settings), "--out", str(tmp_path / "flower")]
    said, errors = (process := started(*command)).communicate(timeout=900)
    assert process.returncode == 0, errors

    local = {key: value for key, value in settings.items() if not key.startswith("federation")}
    here = feddiv.run("quickstart", local, out=tmp_path / "here", workers=0)

    there = feddiv.resume(tmp_path / "flower")  # it is finished: read, not repeated
    for key in ("model_hash", "draw", "bytes_up", "bytes_down", "last_test_accuracy", "flagged"):
        assert there.summary[key] == here.summary[key], key
    assert len(list((tmp_path / "flower" / "sites").glob("*/labels.csv"))) == 3
    assert not list((tmp_path / "flower" / "sites").glob(".stop*"))
    lines = errors.splitlines()
    called = method.rpartition(":")[2]
    assert all(line.startswith(f"{called}  round ") for line in lines), errors
    assert "ray" not in said.lower()


@pytest.mark.full
def test_ctrl_c_ends_it_with_ray_and_resume_gives_the_same_bits(tmp_path: Path) -> None:
    out = tmp_path / "flower"
    command = ["run", "quickstart", *overrides(SIMULATED), "--out", str(out)]
    process = started(*command)
    deadline = time.monotonic() + 600
    while not (out / "rounds.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.2)

    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=90)

    assert process.returncode == 130, errors
    assert errors.splitlines()[-1] == f"feddiv: stopped; go on with: feddiv resume {out}"
    assert "Traceback" not in errors
    deadline = time.monotonic() + 30
    while clients_of(process) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert clients_of(process) == []

    again = started("resume", str(out), "-q")
    _, errors = again.communicate(timeout=900)

    assert (again.returncode, errors) == (0, "")
    here = feddiv.run("quickstart", SETTINGS, out=tmp_path / "here", workers=0)
    assert feddiv.resume(out).summary["model_hash"] == here.summary["model_hash"]


def test_workers_are_rays(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"workers=2: .* federation\.cpus"):
        feddiv.run("quickstart", SIMULATED, out=tmp_path / "run", workers=2)
    assert not (tmp_path / "run").exists()


def test_data_of_this_process_stay_in_it(tmp_path: Path) -> None:
    settings = {"federation.name": "flower_simulation", "data.source": "python"}
    with pytest.raises(UserError, match="stay in this process"):
        feddiv.run({}, settings, out=tmp_path / "run")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ("ray", "Ray is not installed: pip install 'feddiv[flower-simulation]'"),
        ("flwr", "Flower is not installed: pip install 'feddiv[flower-simulation]'"),
    ],
)
def test_says_how_to_get_what_is_missing(missing: str, said: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    program = (
        "import importlib.util as u, sys; find = u.find_spec\n"
        f"u.find_spec = lambda name, *rest: None if name == {missing!r} else find(name, *rest)\n"
        f"from feddiv.cli import main; main({['run', *overrides(SIMULATED), '--out', str(out)]!r})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not out.exists()


def test_flowers_network_is_for_the_server_app(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"federation\.name=flower: is for the server app"):
        feddiv.run("quickstart", {"federation.name": "flower"}, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_of_the_server_app_is_not_resumed_here(tmp_path: Path) -> None:
    run = feddiv.run("quickstart", {**SETTINGS, "rounds": 3}, out=tmp_path / "run", workers=0)
    config = run.folder / "config.toml"
    config.write_text(config.read_text().replace('name = "local"', 'name = "flower"'))
    (run.folder / "summary.json").unlink()
    for file in (run.folder / "checkpoint").glob("*.safetensors"):
        file.unlink()

    with pytest.raises(UserError, match=r"federation\.name=flower: is for the server app"):
        feddiv.resume(run.folder)

"""`feddiv resume` and `--workers` as a user types them."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

TINY = ["rounds=3", "warmup.iterations=1", "data.images=120", "train.epochs=1", "against=[]"]


@pytest.mark.slow
def test_stop_and_resume(tmp_path: Path) -> None:
    settings = [*TINY[1:], "rounds=4000"]
    run = [sys.executable, "-m", "feddiv", "run", *settings, "--out", "mine", "--quiet"]
    process = subprocess.Popen(run, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    rounds = tmp_path / "mine" / "rounds.jsonl"
    patience = time.monotonic() + 60
    while not rounds.exists() and time.monotonic() < patience:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert err == "feddiv: stopped; go on with: feddiv resume mine\n"
    assert list((tmp_path / "mine" / "checkpoint").glob("*.safetensors"))
    # It still is the run that was begun: one with other settings is refused.
    config = tmp_path / "mine" / "config.toml"
    config.write_text(config.read_text().replace("rounds = 4000", "rounds = 6"))
    resume = [sys.executable, "-m", "feddiv", "resume", "mine"]
    refused = subprocess.run(resume, cwd=tmp_path, capture_output=True, text=True)
    assert refused.returncode == 2
    assert "belongs to another run" in refused.stderr.splitlines()[-1]


def test_a_finished_run_says_what_it_said(command, tmp_path: Path) -> None:
    first = command("run", *TINY, "--out", "mine", "--workers", "0", "--quiet")
    assert first.code == 0
    summary = (tmp_path / "mine" / "summary.json").read_text()
    again = command("resume", "mine", "--quiet")
    assert again.code == 0
    assert again.out == first.out
    assert (tmp_path / "mine" / "summary.json").read_text() == summary
    assert len(json.loads(summary)["model_hash"]) == 64


def test_a_finished_run_is_given_more_rounds(command, refused, tmp_path: Path) -> None:
    assert command("run", *TINY, "--out", "mine", "--workers", "0", "--quiet").code == 0
    longer = command("resume", "mine", "rounds=5", "--workers", "0", "--quiet")
    assert longer.code == 0
    assert "digits, 10 clients, 5 rounds, seed 0" in longer.out
    assert json.loads((tmp_path / "mine" / "summary.json").read_text())["rounds"] == 5
    assert "rounds=4: the run in mine has done 5; ask for more" in refused(
        "resume", "mine", "rounds=4"
    )
    assert "was begun with 0.03" in refused("resume", "mine", "rounds=6", "train.lr=0.1")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["resume", "nowhere"], "nowhere: holds no run that was begun (config.toml is missing)"),
        (["run", *TINY, "--workers", "-1"], "--workers"),
        (["run", *TINY, "--workers", "two"], "--workers"),
        (["run", *TINY, "device=tpu"], "device='tpu'"),
        (["run", *TINY, "precision=fp8"], "precision='fp8'"),
        (["run", *TINY, "checkpoint.seconds=-1"], "checkpoint.seconds=-1"),
        (["run", *TINY, "evaluation.every=0"], "evaluation.every=0"),
    ],
)
def test_bad_input(refused, tmp_path: Path, arguments: list[str], said: str) -> None:
    assert said in refused(*arguments)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_replaced_samples_under_the_same_labels_are_refused(command, tmp_path: Path) -> None:
    x, y = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32), np.arange(60) % 3
    x_test, y_test = x[:9] + 1, y[:9]
    np.savez(tmp_path / "a.npz", x=x, y=y, x_test=x_test, y_test=y_test)
    settings = [*TINY, "data.source=npz", "data.path=a.npz", "data.images=50", "clients.count=2"]
    settings.append("model.name=mlp")
    assert command("run", *settings, "--out", "mine", "--workers", "0", "--quiet").code == 0
    (tmp_path / "mine" / "summary.json").unlink()  # as if it had been stopped before its end
    again = ["run", *settings, "data.draw=mine/draw.npz", "--out", "again", "--quiet"]
    changes = {
        "training inputs": {"x": x + 1, "y": y, "x_test": x_test, "y_test": y_test},
        "other test samples": {"x": x, "y": y, "x_test": x_test, "y_test": (y_test + 1) % 3},
    }
    for said, arrays in changes.items():
        np.savez(tmp_path / "a.npz", **arrays)
        for arguments in (["resume", "mine", "--quiet"], again):
            outcome = command(*arguments)
            assert (outcome.code, outcome.err.count("\n")) == (2, 1), outcome.err
            assert said in outcome.err
        assert not (tmp_path / "again").exists()
    np.savez(tmp_path / "a.npz", x=x, y=y, x_test=x_test, y_test=y_test)
    assert command("resume", "mine", "--quiet").code == 0
    assert command(*again).code == 0

"""What only a real process shows."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

INTERRUPTIBLE = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
    "from feddiv.cli import main; main()"
)


def test_ctrl_c_ends_in_one_line_and_keeps_what_was_written(tmp_path: Path):
    settings = ["rounds=5000", "warmup.iterations=1", "data.images=200", "train.epochs=1"]
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE, "run", *settings, "--quiet", "--out", "mine"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    rounds = tmp_path / "mine" / "rounds.jsonl"
    patience = time.monotonic() + 60
    while not rounds.exists() and time.monotonic() < patience:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert out == ""
    assert err == "feddiv: stopped; go on with: feddiv resume mine\n"
    assert json.loads(rounds.read_text().splitlines()[0])["turn"] == 1
    assert not (tmp_path / "mine" / "summary.json").exists()


def test_a_stop_before_anything_was_begun_is_one_line(tmp_path: Path):
    code = (
        "import signal, feddiv.cli.app as app;"
        "app.feddiv.run = lambda *a, **k: signal.raise_signal(signal.SIGTERM); app.main(['run'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 128 + signal.SIGTERM
    assert done.stderr == "feddiv: stopped; nothing was begun\n"
    assert not list(tmp_path.iterdir())


def test_python_m_feddiv_and_a_quick_import():
    code = "import sys, feddiv; assert 'torch' not in sys.modules; print(feddiv.__version__)"
    version = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert version.returncode == 0, version.stderr
    said = subprocess.run(
        [sys.executable, "-m", "feddiv", "--version"], capture_output=True, text=True
    )
    assert (said.returncode, said.stdout) == (0, f"feddiv {version.stdout}")

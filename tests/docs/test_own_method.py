"""The tutorial on a method of one's own: its code is the file that is run here, as it says."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.pages import ROOT, code_of

FILE = ROOT / "examples" / "own_method" / "small_loss.py"
PAGE = ROOT / "docs" / "own-method.md"


def test_the_page_has_the_file_as_it_is_in_under_60_lines() -> None:
    first, *_ = [piece for piece in code_of(PAGE.read_text()) if piece.language == "python"]
    assert f"{first.text}\n" == FILE.read_text()
    assert len(FILE.read_text().splitlines()) < 60


@pytest.mark.slow
def test_the_command_of_the_page_runs(tmp_path: Path) -> None:
    """With fewer rounds and samples, from another folder, as somebody would who copied the file."""
    command = "run quickstart method.name=small_loss:SmallLoss against=fedavg,feddiv"
    assert f"feddiv {command}\n" in PAGE.read_text()
    fewer = ["rounds=5", "warmup.iterations=1", "data.images=240", "train.epochs=1"]
    done = subprocess.run(
        [sys.executable, "-m", "feddiv", *command.split(), *fewer, "--out", "run"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{FILE.parent}:{ROOT / 'src'}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = [line.split()[0] for line in done.stdout.splitlines() if line.endswith(" s ")]
    assert rows == ["SmallLoss", "fedavg", "feddiv"]
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["method"] == "small_loss:SmallLoss"

"""The tutorial, done step by step as it is written."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.pages import ROOT, code_of

SAVED_AS = re.compile(r"[Ss]ave (?:this|it) as `(\w+\.py)`")


@pytest.mark.full
def test_the_tutorial_ends_with_a_model_and_a_list_of_doubtful_labels(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "tutorial.md").read_text()
    blocks = [piece for piece in code_of(page) if not piece.inline]
    scripts = iter(SAVED_AS.findall(page))
    said = {}
    for block in blocks:
        if block.language == "python":
            (tmp_path / next(scripts)).write_text(block.text)
        elif block.language == "bash":
            said[block.text] = _typed(block.text, tmp_path)

    assert "feddiv" in next(text for command, text in said.items() if "feddiv run" in command)
    found = re.findall(r"(\d+) doubted, (\d+) of (\d+) wrong", said["python check.py"])
    assert len(found) == 3
    for doubted, hits, wrong in (map(int, numbers) for numbers in found):
        assert hits >= 0.9 * wrong
        assert doubted - hits <= 10
    predicted = next(text for command, text in said.items() if "predict" in command)
    assert predicted.startswith("sample,predicted_label,confidence\n0045.png,3,")


def _typed(command: str, folder: Path) -> str:
    """What the command prints in a shell that finds feddiv."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euc", command],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done.stdout

"""Files that are written whole or not at all, whatever happens in the middle."""

import signal
import subprocess
import sys

import pytest
import torch

from feddiv.core.files import load_tensors, save_tensors

KILLED_IN_THE_MIDDLE = """
import resource, signal, sys
from pathlib import Path
import torch
from feddiv.core.files import save_tensors
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
save_tensors(Path(sys.argv[1]), {"a": torch.zeros(10_000)})
"""


@pytest.mark.slow
def test_what_a_kill_leaves_of_tensors_is_gone_with_the_next_ones(tmp_path):
    file = tmp_path / "model.safetensors"
    killed = subprocess.run([sys.executable, "-c", KILLED_IN_THE_MIDDLE, str(file)], check=False)
    assert killed.returncode == -signal.SIGXFSZ
    assert [left.name for left in tmp_path.iterdir()] == ["model.safetensors.part"]
    save_tensors(file, {"a": torch.ones(2), "b": torch.zeros(())}, {"net": "mlp"})
    assert list(tmp_path.iterdir()) == [file]
    tensors, header = load_tensors(file)
    assert (tensors["a"].tolist(), tensors["b"].item(), header) == ([1, 1], 0, {"net": "mlp"})

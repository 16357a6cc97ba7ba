"""Small data sets, and the real CIFAR where the machine has it."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from feddiv.data import Augment, Dataset
from feddiv.data.dataset import Split

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"


@pytest.fixture(scope="session")
def cifar_folder() -> Path:
    """The folder that holds cifar-10-batches-py, unpacked once and kept for later sessions."""
    return unpacked("cifar-10", "cifar-10-batches-py")


@pytest.fixture(scope="session")
def cifar100_folder() -> Path:
    """The folder that holds cifar-100-python, unpacked once and kept for later sessions."""
    return unpacked("cifar-100", "cifar-100-python")


@pytest.fixture(scope="session")
def cifar_n_folder() -> Path:
    """The folder that holds cifar-n."""
    if not (SHARED / "cifar-n").exists():
        pytest.skip(f"no CIFAR-N at {SHARED}")
    return SHARED


def unpacked(name: str, folder: str) -> Path:
    if not (SHARED / "unpack.py").exists():
        pytest.skip(f"no {name} at {SHARED}")
    cache = Path(tempfile.gettempdir()) / f"feddiv-tests-{os.getuid()}"
    if not (cache / folder / ".whole").exists():
        cache.mkdir(exist_ok=True)
        fresh = Path(tempfile.mkdtemp(dir=cache))
        subprocess.run([sys.executable, SHARED / "unpack.py", fresh, name], check=True, timeout=300)
        try:
            (fresh / folder).rename(cache / folder)
        except OSError:
            assert (cache / folder / ".whole").exists(), "another test process was faster"
        shutil.rmtree(fresh)
    return cache


@pytest.fixture
def make_dataset() -> Callable[..., Dataset]:
    """Tiny images whose every byte tells which sample it belongs to."""

    def make(labels: list[int], classes: int = 3, truth: list[int] | None = None) -> Dataset:
        images = np.arange(len(labels), dtype=np.uint8)[:, None, None, None]
        inputs = torch.from_numpy(np.broadcast_to(images, (len(labels), 2, 2, 1)).copy())
        split = Split(inputs, torch.tensor(labels))
        return Dataset(
            name="tiny",
            classes=tuple("abcdefghij"[:classes]),
            train=split,
            test=split,
            mean=(0.0,),
            std=(1.0,),
            augment=Augment(),
            truth=None if truth is None else torch.tensor(truth),
        )

    return make

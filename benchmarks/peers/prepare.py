"""Make what the peers need and is missing: an environment for each, and the images.

Runs in feddiv's own environment, which reads CIFAR-10 and its pickles for everybody.
"""

import os
import subprocess
import sys
import venv
from pathlib import Path

import numpy as np

from feddiv.data.data_options import DataOptions
from feddiv.data.sources import cifar10

REQUIREMENTS = {"flower": "flwr[simulation]>=1.41,<2", "pfl": "pfl[pytorch]>=0.6,<0.7"}
CONSTRAINTS = Path(__file__).parents[2] / "constraints.txt"  # one torch for all engines


def make_environment(folder: Path, requirement: str) -> None:
    """A fresh environment, unless it is there with this requirement and these constraints."""
    ready, wanted = folder / "ready", f"{requirement}\n{CONSTRAINTS.read_text()}"
    if ready.exists() and ready.read_text() == wanted:
        return
    print(f"making {folder}", file=sys.stderr, flush=True)
    venv.create(folder, with_pip=True, clear=True, symlinks=os.name != "nt")
    pip = [str(folder / "bin" / "pip"), "install", "--quiet", "-c", str(CONSTRAINTS)]
    subprocess.run([*pip, "torch", requirement], check=True)
    ready.write_text(wanted)


def write_images(file: Path) -> None:
    """CIFAR-10 as uint8 arrays [N,32,32,3], with the constants that feddiv normalises with."""
    if file.exists():
        return
    data = cifar10.load(DataOptions(source="cifar10"))
    unfinished = file.with_name("unfinished.npz")
    np.savez(
        unfinished,
        train_inputs=data.train.inputs.numpy(),
        train_labels=data.train.labels.numpy(),
        test_inputs=data.test.inputs.numpy(),
        test_labels=data.test.labels.numpy(),
        mean=np.asarray(data.mean, np.float32),
        std=np.asarray(data.std, np.float32),
    )
    unfinished.rename(file)


if __name__ == "__main__":
    envs = Path(sys.argv[1])
    envs.mkdir(parents=True, exist_ok=True)
    for peer, requirement in REQUIREMENTS.items():
        make_environment(envs / peer, requirement)
    write_images(envs / "cifar10.npz")

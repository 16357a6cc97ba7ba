"""Made-up data for trials: feature vectors, and clients of whom some are odd."""

from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from feddiv.core.arrays import Labels, Rows
from feddiv.data import Draw
from feddiv.data.draw.fingerprint import label_fingerprint

CLASSES: Final = 3
WIDTH: Final = 6
SIZES: Final = (1, 2, 20, 20, 24, 30)
ONE_CLASS, ALL_WRONG = 2, 3
TESTS: Final = 60
ROUNDS: Final = 8
ODD: Final = {
    0: "has one sample",
    1: "has two samples",
    ONE_CLASS: "has samples of one class only",
    ALL_WRONG: "has wrong labels only",
}


def described(client: int) -> str:
    """A client, and what is odd about it."""
    return f"client {client}" + (f", which {ODD[client]}" if client in ODD else "")


def write_trial(folder: Path) -> dict[str, Any]:
    """Write data and draw into a folder; the settings of an experiment on them."""
    folder.mkdir(parents=True)
    rng, count = np.random.default_rng(3), sum(SIZES)
    truth = np.arange(count + TESTS) % CLASSES
    x = rng.normal(0, 0.4, (len(truth), WIDTH)).astype(np.float32)
    x[np.arange(len(truth)), truth] += 1.5
    labels = truth[:count]
    np.savez(
        folder / "data.npz",
        x=x[:count],
        y=labels,
        y_true=labels,
        x_test=x[count:],
        y_test=truth[count:],
    )
    parts = _parts(labels)
    given = labels.copy()
    given[parts[ALL_WRONG]] = (given[parts[ALL_WRONG]] + 1) % CLASSES
    given[parts[-1][::3]] = (given[parts[-1][::3]] + 2) % CLASSES
    fingerprint = label_fingerprint(torch.from_numpy(labels))
    Draw("npz", parts, given, labels, None, fingerprint).save(folder / "draw.npz")
    return {
        "data.source": "npz",
        "data.path": str(folder / "data.npz"),
        "data.draw": str(folder / "draw.npz"),
        "model.name": "mlp",
        "clients.count": len(SIZES),
        "clients.fraction": 0.5,
        "seed": 2,  # with which `choose` asks every client at least once
        "rounds": ROUNDS,
        "warmup.iterations": 1,
        "train.epochs": 2,
        "train.batch": 5,
        "device": "cpu",
    }


def _parts(labels: Labels) -> tuple[Rows, ...]:
    """The samples of each client."""
    same = np.flatnonzero(labels == 1)[: SIZES[ONE_CLASS]]
    rest = np.setdiff1d(np.arange(len(labels)), same)
    others = [size for client, size in enumerate(SIZES) if client != ONE_CLASS]
    parts = np.split(rest, np.cumsum(others)[:-1])
    return (*parts[:ONE_CLASS], same, *parts[ONE_CLASS:])

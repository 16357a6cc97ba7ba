"""Sites with folders of their own: real digits as files, some in the wrong folder."""

import csv
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits
from tests.flower.grids import LocalGrid

from feddiv.flower import client_app

CLASSES = ("zero", "one", "two", "three")


def site_folder(root: Path, rows: range, classes=CLASSES, swap: int = 0) -> Path:
    """Real digits as PNG files in class folders; the first `swap` lie in the wrong one."""
    images, labels = load_digits(return_X_y=True)
    found = [i for i in np.flatnonzero(labels < len(CLASSES)) if CLASSES[labels[i]] in classes]
    for number, i in enumerate(found[rows.start : rows.stop]):
        name = CLASSES[labels[i]]
        if number < swap:
            name = classes[(classes.index(name) + 1) % len(classes)]
        (root / name).mkdir(parents=True, exist_ok=True)
        pixels = (images[i].reshape(8, 8) * 15.9).astype(np.uint8)
        Image.fromarray(pixels).save(root / name / f"{i:04d}.png")
    return root


def sites_grid(folder, names=("a", "b"), **keys):
    config = {"config": str(folder / "experiment.toml"), "out": str(folder / "run")} | keys
    nodes = {
        5 + number: {
            "data-path": str(folder / name / "images"),
            "site-path": str(folder / name / "state"),
        }
        for number, name in enumerate(names)
    }
    keys_of = {5 + number: f"key of {name}".encode() for number, name in enumerate(names)}
    grid = LocalGrid(
        client_app(),
        nodes,
        config,
        keys=keys_of,
        names={5 + number: name for number, name in enumerate(names)},
    )
    return grid, config


def audit(folder, name):
    """The rows of a site's `labels.csv`."""
    with (folder / name / "state" / "labels.csv").open(newline="") as file:
        return list(csv.DictReader(file))

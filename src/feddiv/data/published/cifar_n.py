"""CIFAR-N: labels that people gave CIFAR's training images (Wei et al., ICLR 2022)."""

import csv
from pathlib import Path
from typing import Final

import numpy as np

from feddiv.core.arrays import Labels
from feddiv.core.errors import UserError
from feddiv.data.images.listing import some
from feddiv.data.published.benchmarks import CIFAR_N
from feddiv.data.published.integrity import piece_problem
from feddiv.data.published.pickles import read_pickle
from feddiv.data.published.places import find

CLEAN: Final = "clean_label"
MOST_IMAGES: Final = 1_000_000  # of the annotators' file; CIFAR-100 has 50,000
ANNOTATORS: Final = "side_info_cifar100N.csv"

# By data set: the file, and what users call each set of labels in it.
FILES: Final = {"cifar10": "CIFAR-10_human.pt", "cifar100": "CIFAR-100_human.pt"}
KEYS: Final = {
    "cifar10": {
        "aggre": "aggre_label",
        "random1": "random_label1",
        "random2": "random_label2",
        "random3": "random_label3",
        "worse": "worse_label",
    },
    "cifar100": {"noisy": "noisy_label"},
}


def read_human_labels(path: Path | None, dataset: str, which: str) -> tuple[Labels, Labels]:
    """The clean labels of all training images as the file has them, and those people gave."""
    file, md5 = _file(path, FILES[dataset], "noise.path")
    content = read_pickle(file, md5=md5)
    if not isinstance(content, dict):
        raise UserError(f"{file}: holds a {type(content).__name__}, not sets of labels by name")
    key = KEYS[dataset][which]
    clean, given = _labels(content, CLEAN, file), _labels(content, key, file)
    if len(clean) != len(given):
        raise UserError(f"{file}: {len(clean)} labels in {CLEAN} but {len(given)} in {key}")
    return clean, given


def read_annotators(path: Path | None) -> Labels:
    """The annotator's number for each training image of CIFAR-100, in order."""
    file, _ = _file(path, ANNOTATORS, "partition.path")
    people: dict[int, int] = {}
    try:
        with file.open(newline="", encoding="utf-8") as lines:
            for line in csv.DictReader(lines):
                first, _, last = line["Image-batch"].partition("--")
                images = range(int(first), int(last) + 1)
                if not 0 <= images.start < images.stop <= MOST_IMAGES:
                    raise ValueError(f"image batch {first[:20]}--{last[:20]} is impossible")
                if any(image in people for image in images):
                    raise ValueError(f"image batch {first}--{last} comes twice")
                people.update(dict.fromkeys(images, int(line["Worker-id"])))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, csv.Error) as error:
        raise UserError(f"{file}: not the annotators of CIFAR-100N ({error})") from None
    if not people or sorted(people) != list(range(len(people))):
        raise UserError(f"{file}: its {len(people)} images are not 0, 1, 2, … without a gap")
    try:
        return np.array([people[image] for image in range(len(people))], dtype=np.int64)
    except OverflowError:
        raise UserError(f"{file}: its annotators have larger numbers than 64 bits hold") from None


def _file(path: Path | None, name: str, setting: str) -> tuple[Path, str | None]:
    """A file of CIFAR-N: `path` itself, or in the folder that `path` or else FEDDIV_DATA names.

    What is found in a folder has to be the published file, whose md5 comes along. A file that is
    named itself may be the user's own.
    """
    if path is not None and path.expanduser().is_file():
        return path.expanduser(), None
    file = find(CIFAR_N, path, setting) / name
    if not file.is_file():
        raise UserError(f"{file}: there is no such file; run `feddiv data get {CIFAR_N.name}`")
    piece = CIFAR_N.piece(name)
    problem = piece_problem(piece, file.parent)
    if problem is not None:
        raise UserError(
            f"{file.parent}: {problem}; run `feddiv data get {CIFAR_N.name}`, or name a file of "
            f"your own by {setting}"
        )
    return file, piece.md5


def _labels(content: dict[str, object], key: str, file: Path) -> Labels:
    if key not in content:
        listed = some([str(name)[:40] for name in content], most=10)
        raise UserError(f"{file}: no labels {key!r} in it, found {listed}")
    labels = content[key]
    if not isinstance(labels, np.ndarray) or labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise UserError(f"{file}: {key} is not a list of class numbers")
    return labels.astype(np.int64)

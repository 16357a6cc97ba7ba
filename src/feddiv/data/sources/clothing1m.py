"""Clothing1M (Xiao et al. 2015) in the layout its owners distribute.

Training images are those of the noisy training list under the labels of their web texts; test
images those of the clean test list. The clean training and validation lists are not used. As in
the benchmark, training images are stored at 256/224 of `data.size` and a window of `data.size` is
cut out at random; test images are stored at `data.size`.
"""

import re
from pathlib import Path
from typing import Final

import numpy as np

from feddiv.core.errors import UserError
from feddiv.core.given_files import read_given
from feddiv.data.data_options import DataOptions
from feddiv.data.images.listing import Files, ImageListing, Listed
from feddiv.data.transform import Augment

TAKES: Final = frozenset({"path", "size"})
CLASS: Final = re.compile(r"[0-9]{1,9}")
LONGEST: Final = 1 << 30  # bytes of a list of images
SIZE: Final = 224
STORED: Final = 256  # training images, where the net sees SIZE
MEAN: Final = (0.485, 0.456, 0.406)  # ImageNet's
STD: Final = (0.229, 0.224, 0.225)
NAMES: Final = (
    "T-shirt", "Shirt", "Knitwear", "Chiffon", "Sweater", "Hoodie", "Windbreaker",
    "Jacket", "Down coat", "Suit", "Shawl", "Dress", "Vest", "Underwear",
)  # fmt: skip
TRAIN_LABELS, TRAIN_LIST = "noisy_label_kv.txt", "noisy_train_key_list.txt"
TEST_LABELS, TEST_LIST = "clean_label_kv.txt", "clean_test_key_list.txt"


def load(options: DataOptions) -> ImageListing:
    """A million noisy training images and ten thousand clean test images, none of them read yet."""
    if options.path is None:
        raise UserError(
            "data.source=clothing1m: data.path has to name the folder that holds "
            f"{TRAIN_LABELS}, {TRAIN_LIST}, {TEST_LABELS}, {TEST_LIST} and images/"
        )
    root = options.path.expanduser()
    for name in (TRAIN_LABELS, TRAIN_LIST, TEST_LABELS, TEST_LIST, "images"):
        if not (root / name).exists():
            raise UserError(f"data.path={root}: holds no {name}, which Clothing1M has")
    classes = _class_names(root)
    size = options.size or SIZE
    return ImageListing(
        name="clothing1m",
        classes=classes,
        train=_listed(root, TRAIN_LIST, TRAIN_LABELS, len(classes)),
        test=_listed(root, TEST_LIST, TEST_LABELS, len(classes)),
        size=size,
        channels=3,
        margin=2 * round(size * (STORED - SIZE) / SIZE / 2),
        augment=Augment(flip=True),
        mean=MEAN,
        std=STD,
    )


def _class_names(root: Path) -> tuple[str, ...]:
    """The English names, the Chinese ones where only those are there, else those of the paper."""
    for file in ("category_names_eng.txt", "category_names_chn.txt"):
        if (root / file).is_file():
            names = tuple(line.strip() for line in _lines(root / file) if line.strip())
            if len(names) < 2 or len(set(names)) != len(names):
                raise UserError(f"{root / file}: needs one name a line, all different")
            return names
    return NAMES


def _listed(root: Path, keys: str, labels: str, classes: int) -> Listed:
    names = [line for line in map(str.strip, _lines(root / keys)) if line]
    if not names:
        raise UserError(f"{root / keys}: names no images")
    label_of = _labels(root / labels, classes)
    numbers = np.empty(len(names), dtype=np.int64)
    for row, name in enumerate(names):
        if name not in label_of:
            raise UserError(f"{root / keys} line {row + 1}: {name} has no label in {labels}")
        numbers[row] = label_of[name]
    return Listed(Files(root, tuple(names)), numbers)


def _labels(file: Path, classes: int) -> dict[str, int]:
    """Class number by image: lines of a path and a number."""
    labels = {}
    for row, line in enumerate(_lines(file), 1):
        if not line.strip():
            continue
        name, _, text = line.strip().rpartition(" ")
        if not name or not CLASS.fullmatch(text):
            raise UserError(f"{file} line {row}: {line.strip()!r} is not a path and a class number")
        if int(text) >= classes:
            raise UserError(f"{file} line {row}: class {text}, allowed are 0..{classes - 1}")
        labels[name.strip()] = int(text)
    return labels


def _lines(file: Path) -> list[str]:
    try:
        return read_given(file, LONGEST).decode("utf-8-sig").splitlines()
    except OSError as error:
        raise UserError(f"{file}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{file}: is not UTF-8 ({error.reason})") from None

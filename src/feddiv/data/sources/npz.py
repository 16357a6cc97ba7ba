"""Somebody's own samples in one .npz file.

`x` and `y` are needed; `x_test` and `y_test` (else `data.test_share` is held out), `y_true` (true
labels of the rows of `x`) and `classes` (names) are optional.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from feddiv.core.archives import Arrays, described, read_npz
from feddiv.core.arrays import Rows
from feddiv.core.errors import UserError
from feddiv.data.data_options import MOST_CLASSES, DataOptions
from feddiv.data.dataset import Dataset, Split
from feddiv.data.images.listing import some
from feddiv.data.sample_names import Numbered
from feddiv.data.statistics import feature_statistics, image_statistics
from feddiv.data.test_split import FIFTH, hold_out
from feddiv.data.transform import Augment

NAMES: Final = ("x", "y", "x_test", "y_test", "y_true", "classes")
LABELS: Final = ("y", "y_test", "y_true")


def load(options: DataOptions) -> Dataset:
    """Images (uint8) or feature vectors (float) with integer or string labels."""
    if options.path is None:
        raise UserError("data.source=npz: data.path has to name the .npz file")
    path = options.path.expanduser()
    arrays = read_npz(path, "data.path")
    try:
        return build_dataset(arrays, "npz", options.test_share)
    except Malformed as error:
        raise UserError(f"data.path {path}: {error}") from None


class Malformed(Exception):
    """What is wrong with the arrays; the caller knows the file."""


def build_dataset(arrays: Arrays, name: str, test_share: float | None) -> Dataset:
    """The data set of arrays with the names above; raises Malformed where they make none."""
    _check_names(arrays)
    x = _inputs(arrays, "x")
    classes, labels = _labels(arrays)
    _check_length(labels["y"], "y", x, "x")
    truth = labels.get("y_true")
    if truth is not None:
        _check_length(truth, "y_true", x, "x")

    if "x_test" in arrays:
        x_test, y_test = _inputs(arrays, "x_test"), labels["y_test"]
        _check_length(y_test, "y_test", x_test, "x_test")
        if x_test.dtype != x.dtype or x_test.shape[1:] != x.shape[1:]:
            raise Malformed(
                f"x_test is {described(arrays['x_test'])}, which does not fit x, "
                f"{described(arrays['x'])}"
            )
        y, rows = labels["y"], np.arange(len(x))
    else:
        train, test = hold_out(labels["y"], test_share)
        if len(test) == 0 and test_share != 0:
            share = FIFTH if test_share is None else test_share
            raise Malformed(
                f"{len(x)} samples are too few to hold out {share:.0%} of each class as test; "
                "add x_test and y_test"
            )
        # Where the truth is known, the held-out rows are judged by it.
        y_test = (labels["y"] if truth is None else truth)[test]
        x, x_test, y, rows = x[train], x[test], labels["y"][train], train
        truth = None if truth is None else truth[train]

    mean, std = image_statistics(x) if x.ndim == 4 else feature_statistics(x)
    return Dataset(
        name=name,
        classes=classes,
        train=Split(torch.from_numpy(x), torch.from_numpy(y)),
        test=Split(torch.from_numpy(x_test), torch.from_numpy(y_test)),
        mean=mean,
        std=std,
        augment=Augment(),
        truth=None if truth is None else torch.from_numpy(truth),
        notes=_gaps(arrays, classes, labels),
        split_here="x_test" not in arrays,
        names=Numbered(rows),
    )


def _check_names(arrays: Arrays) -> None:
    for name in ("x", "y"):
        if name not in arrays:
            raise Malformed(f"array {name!r} is missing, found {sorted(arrays)}")
    unknown = sorted(set(arrays) - set(NAMES))
    if unknown:
        raise Malformed(f"unknown arrays {unknown}, allowed are {', '.join(NAMES)}")
    if ("x_test" in arrays) != ("y_test" in arrays):
        there, missing = ("x_test", "y_test") if "x_test" in arrays else ("y_test", "x_test")
        raise Malformed(f"{there} without {missing}; give both or neither")


def _inputs(arrays: Arrays, name: str) -> npt.NDArray[Any]:
    """uint8 [N,H,W,C] or float32 [N,D]."""
    array = arrays[name]
    if array.ndim == 0 or array.size == 0:
        raise Malformed(f"{name} is empty ({described(array)})")
    if array.dtype == np.uint8 and array.ndim in (3, 4):
        return np.ascontiguousarray(array if array.ndim == 4 else array[..., None])
    if array.dtype.kind == "f" and array.ndim == 2:
        with np.errstate(over="ignore"):
            features = np.ascontiguousarray(array, dtype=np.float32)
        if not np.isfinite(features).all():
            row = int(np.flatnonzero(~np.isfinite(features).all(axis=1))[0])
            raise Malformed(f"{name} holds a value that is not finite in float32, in row {row}")
        return features
    raise Malformed(
        f"{name} is {described(array)}; allowed are images, uint8 [N,H,W] or [N,H,W,C], "
        "and feature vectors, float [N,D]"
    )


def _labels(arrays: Arrays) -> tuple[tuple[str, ...], dict[str, Rows]]:
    """Class names, and every label array as class numbers."""
    given = {name: arrays[name] for name in LABELS if name in arrays}
    for name, array in given.items():
        if array.ndim != 1 or array.dtype.kind not in "iuU":
            raise Malformed(f"{name} is {described(array)}; labels are integers or strings, [N]")
    texts = [name for name, array in given.items() if array.dtype.kind == "U"]
    if texts and len(texts) < len(given):
        raise Malformed(f"{' and '.join(given)} mix integer and string labels")

    everything = np.concatenate(list(given.values()))
    if "classes" in arrays:
        classes = _class_names(arrays["classes"])
    elif texts:
        classes = tuple(str(name) for name in np.unique(everything))
    else:
        largest = int(everything.max(initial=0))
        if largest >= len(everything):
            raise Malformed(
                f"label {largest} is larger than the number of samples; "
                "integer labels count classes from 0"
            )
        classes = tuple(str(number) for number in range(largest + 1))
    if len(classes) > MOST_CLASSES:
        raise Malformed(f"{len(classes):,} classes, at most {MOST_CLASSES:,} are allowed")
    return classes, {name: class_numbers(name, array, classes) for name, array in given.items()}


def _gaps(arrays: Arrays, classes: tuple[str, ...], labels: dict[str, Rows]) -> tuple[str, ...]:
    """A line about numbers below the largest label that no sample has; names are meant so."""
    used = np.unique(np.concatenate(list(labels.values())))
    if "classes" in arrays or len(used) == len(classes):
        return ()
    unused = [name for number, name in enumerate(classes) if number not in set(used.tolist())]
    return (
        f"classes without a sample: {len(unused):,} of {len(classes):,} ({some(unused)}); integer "
        "labels count classes from 0",
    )


def class_numbers(name: str, array: npt.NDArray[Any], classes: tuple[str, ...]) -> Rows:
    """Labels that are numbers or names of these classes, as numbers."""
    if array.dtype.kind == "U":
        place = {text: number for number, text in enumerate(classes)}
        values, back = np.unique(array, return_inverse=True)
        for value in values:
            if str(value) not in place:
                raise Malformed(f"{name} holds {str(value)!r}, which is not in classes")
        return np.array([place[str(value)] for value in values], dtype=np.int64)[back]
    wrong = array[(array < 0) | (array >= len(classes))]
    if len(wrong):
        raise Malformed(f"{name} holds label {wrong[0]}, allowed are 0..{len(classes) - 1}")
    return array.astype(np.int64)


def _class_names(array: npt.NDArray[Any]) -> tuple[str, ...]:
    if array.ndim != 1 or array.dtype.kind != "U":
        raise Malformed(f"classes is {described(array)}; names are strings, [C]")
    if len(np.unique(array)) != len(array):
        raise Malformed("classes holds a name twice")
    return tuple(str(name) for name in array)


def _check_length(labels: Rows, name: str, inputs: npt.NDArray[Any], of: str) -> None:
    if len(labels) != len(inputs):
        raise Malformed(f"{name} has {len(labels)} labels for {len(inputs)} rows of {of}")

"""A site's file of predicted probabilities: a row for each sample, a column for each class."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from feddiv.core.archives import described, read_npz
from feddiv.core.arrays import Array, Labels, Rows
from feddiv.core.errors import UserError
from feddiv.data import Dataset
from feddiv.data.classes import UnknownClass
from feddiv.data.sources.npz import Malformed, class_numbers
from feddiv.data.sources.table_files import TABLES, read_table

LABEL: Final = ("given_label", "label")  # columns of a table, the first that is there
NAME: Final = ("sample", "image", "path", "file")
ARRAYS: Final = ("probabilities", "labels", "classes", "samples")
SLACK: Final = 0.01  # by which a row may miss 1: probabilities are written with few digits


@dataclass(frozen=True, eq=False)
class ProbabilityFile:
    """What is in the file, as it is there; `where` names it in errors.

    Labels are numbers or names of classes, None where the file has none. So are classes, which then
    are called by their numbers, and samples, which then are known by their rows.
    """

    where: str
    probabilities: npt.NDArray[Any]
    labels: npt.NDArray[Any] | None
    classes: tuple[str, ...] | None
    samples: tuple[str, ...]

    @classmethod
    def read(cls, path: Path, key: str) -> ProbabilityFile:
        """An .npz file with an array `probabilities`, or a table with a column per class."""
        where = f"{key} {path}"
        if path.suffix.lower() in TABLES:
            return cls._table(path, where)
        if path.suffix != ".npz":
            raise UserError(f"{where}: is no file of .npz, {', '.join(TABLES)}")
        arrays = read_npz(path, key)
        if "probabilities" not in arrays:
            raise UserError(f"{where}: array 'probabilities' is missing, found {sorted(arrays)}")
        unknown = sorted(set(arrays) - set(ARRAYS))
        if unknown:
            raise UserError(
                f"{where}: unknown array {unknown[0]!r}, allowed are {', '.join(ARRAYS)}"
            )
        for name in ("classes", "samples"):
            if name in arrays and arrays[name].ndim != 1:
                raise UserError(
                    f"{where}: {name} are {described(arrays[name])}; names one after the other, "
                    "in one dimension, are needed"
                )
        classes, samples = (
            tuple(str(each) for each in arrays.get(name, ())) for name in ("classes", "samples")
        )
        return cls(where, arrays["probabilities"], arrays.get("labels"), classes or None, samples)

    @classmethod
    def _table(cls, path: Path, where: str) -> ProbabilityFile:
        table = read_table(path, where)
        label = next((name for name in LABEL if name in table.names), None)
        named = next((name for name in NAME if name in table.names), None)
        classes = tuple(name for name in table.names if name not in (*LABEL, *NAME))
        if not classes:
            raise table.malformed("has no column of probabilities, one for each class")
        for name in classes:
            table.check_utf8("column", name)
        labels = None if label is None else np.array(table.texts([label])[0], np.str_)
        samples = () if named is None else tuple(table.texts([named])[0])
        for row, name in enumerate(samples):
            table.check_utf8(str(named), name, row)
        return cls(where, table.vectors(classes), labels, classes, samples)

    def of_samples(self, dataset: Dataset, *, in_order: bool) -> Array:
        """Probabilities [n, C] of these samples, by the classes and the order of the data set.

        Rows are found by the samples' names, or by their order where the data have one.
        """
        values = checked_probabilities(self.where, self.probabilities)
        values = values[:, self._columns(dataset.classes, values.shape[1])]
        rows = self._rows(dataset, len(values), in_order=in_order)
        self._check_labels(dataset, rows)
        return values[rows]

    def _columns(self, classes: tuple[str, ...], count: int) -> list[int]:
        """Which column belongs to each class."""
        if self.classes is None or len(self.classes) != count:
            if count != len(classes) or self.classes is not None:
                raise UserError(
                    f"{self.where}: {count} columns of probabilities for {len(classes)} classes"
                )
            return list(range(count))
        wanted, counts = set(classes), Counter(self.classes)
        for name in counts:
            if name not in wanted:
                raise UnknownClass(name, classes, self.where)
        for name in classes:
            if counts[name] != 1:
                raise UserError(
                    f"{self.where}: class {name!r} has {counts[name]} columns of probabilities; "
                    "every class of the run has one"
                )
        place = {name: column for column, name in enumerate(self.classes)}
        return [place[name] for name in classes]

    def _rows(self, dataset: Dataset, count: int, *, in_order: bool) -> Rows:
        """The row of each sample."""
        wanted = len(dataset.train)
        if not self.samples:
            if not in_order:
                raise UserError(
                    f"{self.where}: does not say which sample a row is of, and the files of a "
                    "folder have no order; add a column `sample` (of an .npz file, an array "
                    "`samples`)"
                )
            if count != wanted:
                raise UserError(f"{self.where}: {count} rows for {wanted} samples of the data")
            return np.arange(wanted)
        if len(self.samples) != count:
            raise UserError(f"{self.where}: {len(self.samples)} names for {count} rows")
        place = {name: row for row, name in enumerate(self.samples)}
        if len(place) < count:
            twice = next(name for name, times in Counter(self.samples).items() if times > 1)
            raise UserError(f"{self.where}: sample {twice!r} is there more than once")
        names = [dataset.name_of(row) for row in range(wanted)]
        for name in names:
            if name not in place:
                raise UserError(
                    f"{self.where}: {count} rows, none of them for sample {name!r} of the data"
                )
        return np.array([place[name] for name in names], dtype=np.int64)

    def _check_labels(self, dataset: Dataset, rows: Rows) -> None:
        """Labels that the file has must be those of the data: else it is of other samples."""
        if self.labels is None:
            return
        names = dataset.classes if self.classes is None else self.classes
        found = numbered_labels(self.where, self.labels, names, len(self.probabilities))
        told = [names[number] for number in found[rows]]
        given = [dataset.classes[number] for number in dataset.train.labels.tolist()]
        for row, (one, other) in enumerate(zip(told, given, strict=True)):
            if one != other:
                raise UserError(
                    f"{self.where}: sample {dataset.name_of(row)!r} has the label {one!r}, in the "
                    f"data {other!r}; are these the same samples?"
                )


def checked_probabilities(where: str, given: object) -> Array:
    """Found to be probabilities [n, C]."""
    values = as_array(given)
    if values.ndim != 2 or values.dtype.kind not in "fiu":
        raise UserError(
            f"{where}: probabilities are {described(values)}; one row for each sample and one "
            "column for each class are needed"
        )
    with np.errstate(over="ignore"):  # what is too large is told below
        values = values.astype(np.float64)
        sums = values.sum(axis=1)
    bad = ~np.isfinite(values).all(axis=1) | (values < 0).any(axis=1) | (abs(sums - 1) > SLACK)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        outside = values[row][~(values[row] >= 0)]
        raise UserError(
            f"{where}: row {row} holds no probabilities: they are 0 at least and sum to 1, not "
            f"{outside[0] if len(outside) else sums[row]:.4g}"
        )
    return values


def as_array(given: object) -> npt.NDArray[Any]:
    """What was given in Python; lists of different lengths are an array of objects."""
    try:
        return np.asarray(given)
    except ValueError:
        return np.empty(0, dtype=object)


def numbered_labels(
    where: str, labels: npt.NDArray[Any], classes: tuple[str, ...], count: int
) -> Labels:
    """Labels that are numbers or names of these classes, as numbers [n]."""
    if labels.shape != (count,) or labels.dtype.kind not in "iuU":
        raise UserError(
            f"{where}: labels are {described(labels)}; {count} numbers or names of classes are "
            "needed"
        )
    try:
        return class_numbers("labels", labels, classes)
    except Malformed as problem:
        raise UserError(f"{where}: {problem}") from None

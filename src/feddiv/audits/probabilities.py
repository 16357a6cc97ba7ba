"""Audits of sites that bring predicted probabilities: no data, no net, only a filter."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from feddiv.audits.label_audit import LabelAudit, LabelAudits
from feddiv.audits.shared_filter import as_logits, shared_opinions
from feddiv.core.archives import described, read_npz
from feddiv.core.arrays import Array, Labels
from feddiv.core.errors import UserError
from feddiv.data.sources.npz import Malformed, class_numbers
from feddiv.data.sources.table_files import TABLES, read_table

LABEL: Final = ("given_label", "label")  # columns of a table, the first that is there
NAME: Final = ("sample", "image", "path", "file")
ARRAYS: Final = ("probabilities", "labels", "classes", "samples")
SLACK: Final = 0.01  # by which a row may miss 1: probabilities are written with few digits


@dataclass(frozen=True, eq=False)
class Predictions:
    """What one site brings: probabilities [n, C], labels [n], names of its samples or none."""

    site: str
    classes: tuple[str, ...]
    probabilities: Array
    labels: Labels
    samples: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        site: str,
        probabilities: object,
        labels: object,
        classes: Sequence[str] | None = None,
        samples: Sequence[str] = (),
    ) -> "Predictions":
        """Checked; without names classes are called by their numbers, from 0."""
        values = _probabilities(site, probabilities)
        count = values.shape[1]
        names = tuple(map(str, range(count) if classes is None else classes))
        if len(names) != count or len(set(names)) != count or count < 2:
            raise UserError(
                f"{site}: {count} columns of probabilities for {len(set(names))} different "
                "classes; there have to be as many, 2 at least"
            )
        given = np.asarray(labels)
        if given.shape != (len(values),) or given.dtype.kind not in "iuU":
            raise UserError(
                f"{site}: labels are {described(given)}; {len(values)} numbers or names of classes "
                "are needed"
            )
        if samples and len(samples) != len(values):
            raise UserError(f"{site}: {len(samples)} names for {len(values)} samples")
        try:
            numbers = class_numbers("labels", given, names)
        except Malformed as problem:
            raise UserError(f"{site}: {problem}") from None
        return cls(site, names, values, numbers, tuple(map(str, samples)))


def _probabilities(site: str, given: object) -> Array:
    values: npt.NDArray[Any] = np.asarray(given)
    if values.ndim != 2 or values.dtype.kind not in "fiu":
        raise UserError(
            f"{site}: probabilities are {described(values)}; one row for each sample and one "
            "column for each class are needed"
        )
    values = values.astype(np.float64)
    sums = values.sum(axis=1)
    bad = ~np.isfinite(values).all(axis=1) | (values < 0).any(axis=1) | (abs(sums - 1) > SLACK)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise UserError(
            f"{site}: row {row} holds no probabilities: they are 0 at least and sum to 1, not "
            f"{sums[row]:.4g}"
        )
    return values


def audits_of_predictions(sites: Sequence[Predictions]) -> LabelAudits:
    """What the sites find together; each one's audit is its own."""
    for site in sites:
        if site.classes != sites[0].classes:
            raise UserError(
                f"{site.site}: its classes are {', '.join(site.classes[:8])}, those of "
                f"{sites[0].site} {', '.join(sites[0].classes[:8])}; all have to have the same"
            )
    opinions = shared_opinions([(as_logits(each.probabilities), each.labels) for each in sites])
    return LabelAudits(
        tuple(
            LabelAudit(each.site, each.classes, each.labels, opinion, _names(each))
            for each, opinion in zip(sites, opinions, strict=True)
        )
    )


def _names(site: Predictions) -> Any:
    return site.samples.__getitem__ if site.samples else str


def read_predictions(path: Path) -> Predictions:
    """An .npz file with arrays `probabilities` and `labels`, or a table with a column per class."""
    where = f"--probabilities {path}"
    if path.suffix.lower() in TABLES:
        return _table(path, where)
    if path.suffix != ".npz":
        raise UserError(f"{where}: is no file of .npz, {', '.join(TABLES)}")
    arrays = read_npz(path, "--probabilities")
    for name in ("probabilities", "labels"):
        if name not in arrays:
            raise UserError(f"{where}: array {name!r} is missing, found {sorted(arrays)}")
    unknown = sorted(set(arrays) - set(ARRAYS))
    if unknown:
        raise UserError(f"{where}: unknown array {unknown[0]!r}, allowed are {', '.join(ARRAYS)}")
    texts = {key: [str(each) for each in arrays.get(key, ())] for key in ("classes", "samples")}
    predictions = Predictions.of(
        where, arrays["probabilities"], arrays["labels"], texts["classes"] or None, texts["samples"]
    )
    return _renamed(predictions, path.stem)


def _table(path: Path, where: str) -> Predictions:
    table = read_table(path, where)
    label = next((name for name in LABEL if name in table.names), None)
    if label is None:
        raise table.malformed(f"has no column {' or '.join(LABEL)}")
    named = next((name for name in NAME if name in table.names), None)
    classes = tuple(name for name in table.names if name not in (*LABEL, *NAME))
    (labels,) = table.texts([label])
    (samples,) = table.texts([named]) if named is not None else ([],)
    values = table.vectors(classes) if classes else np.empty((len(labels), 0))
    predictions = Predictions.of(where, values, np.array(labels, np.str_), classes, samples)
    return _renamed(predictions, path.stem)


def _renamed(site: Predictions, name: str) -> Predictions:
    return Predictions(name, site.classes, site.probabilities, site.labels, site.samples)

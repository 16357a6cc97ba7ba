"""labels.csv: a site's table of labels, for people and their spreadsheets."""

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

from feddiv.audits.label_audit import COLUMNS, LabelAudit
from feddiv.core.arrays import Array
from feddiv.core.errors import UserError
from feddiv.core.names import check_name
from feddiv.core.spreadsheets import cell
from feddiv.data.images.listing import numbered
from feddiv.data.sources.table_files import CsvTable
from feddiv.methods.contract import Assessment

LABELS: Final = "labels.csv"
NUMBERS: Final = ("label_quality", "confidence")
NAMES: Final = ("sample", "given_label", "predicted_label")


def csv_text(audit: LabelAudit) -> str:
    """The table as text; what a spreadsheet would take for a formula is none."""
    columns = audit.columns()
    safe = {name: cell(name) for name in audit.classes}

    def written(name: str) -> Callable[[Any], str]:
        if name in NUMBERS:
            return lambda value: "" if value is None else f"{value:.6f}"
        if name in NAMES:
            return lambda value: "" if value is None else safe.get(value) or cell(value)
        return lambda value: "" if value is None else str(value)

    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(columns)
    table.writerows(
        zip(*(map(written(name), values) for name, values in columns.items()), strict=True)
    )
    return text.getvalue()


def read_labels(
    path: Path,
    site: str,
    classes: tuple[str, ...] | None = None,
    data: Path | None = None,
) -> LabelAudit:
    """The audit that a file tells of, its samples in the file's order, called as in their cells.

    Without `classes` those that occur are all that are known. UserError for any other file.
    """
    table = CsvTable(path, str(path))
    for name in COLUMNS:
        if name not in table.names:
            raise UserError(f"{path}: is no list of labels (there is no column {name})")
    given, predicted, samples, quality, confidence = table.texts(
        ["given_label", "predicted_label", "sample", "label_quality", "confidence"]
    )
    for column, names in zip(NAMES, (samples, given, predicted), strict=True):
        for row, name in enumerate(names):
            try:
                check_name(column, name)
            except ValueError as problem:
                raise table.malformed(str(problem), row) from None
    if classes is None:
        classes = numbered([name for name in (*given, *predicted) if name])[0]
    place = {cell(name): number for number, name in enumerate(classes)}

    def labels(column: str, names: list[str]) -> Any:
        for row, name in enumerate(names):
            if name not in place:
                raise table.malformed(f"{column} {name!r} is no class", row)
        return np.array([place[name] for name in names], np.int64)

    def shares(column: str, texts: list[str]) -> Array | None:
        if not any(texts):
            return None
        values = table.vectors([column])[:, 0].astype(np.float64)
        wrong = np.flatnonzero((values < 0) | (values > 1))
        if len(wrong):
            raise table.malformed(f"{column} is not from 0 to 1", int(wrong[0]))
        return values

    opinion = None
    if any(predicted):
        opinion = Assessment(
            labels("predicted_label", predicted),
            shares("label_quality", quality),
            confidence=shares("confidence", confidence),
        )
    return LabelAudit(
        site=site,
        classes=classes,
        given=labels("given_label", given),
        opinion=opinion,
        name=samples.__getitem__,
        data=data,
    )

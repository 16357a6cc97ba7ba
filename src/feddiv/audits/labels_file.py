"""labels.csv: a site's table of labels, for people and their spreadsheets."""

import csv
import io
from collections.abc import Callable
from typing import Any, Final

from feddiv.audits.label_audit import LabelAudit
from feddiv.core.spreadsheets import cell

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

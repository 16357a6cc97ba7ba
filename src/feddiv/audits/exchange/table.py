"""A table for spreadsheets and FiftyOne: whoever decides fills in the column `label`."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final

from feddiv.audits.exchange.items import (
    CANNOT_TELL,
    FoundDecision,
    Item,
    check_path,
    endings,
    in_utc,
)
from feddiv.core.spreadsheets import cell, separator

# FiftyOne's CSVDataset takes the samples' files from `filepath`.
COLUMNS: Final = (
    "filepath",
    "sample",
    "given_label",
    "predicted_label",
    "label_quality",
    "confidence",
    "is_label_issue",
    "action",
    "label",
)
UNSURE: Final = (CANNOT_TELL, "cannot_tell", "?")


def text(items: Sequence[Item], prefix: str | None) -> str:
    """The table; `label` is empty, for whoever decides."""
    content = io.StringIO()
    table = csv.writer(content, lineterminator="\n")
    table.writerow(COLUMNS)
    for item in items:
        table.writerow(
            (
                cell((prefix or "") + item.sample),
                cell(item.sample),
                cell(item.given),
                cell(item.predicted or ""),
                "" if item.quality is None else f"{item.quality:.6f}",
                "" if item.confidence is None else f"{item.confidence:.6f}",
                item.issue,
                item.action or "",
                "",
            )
        )
    return content.getvalue()


def read(
    content: bytes, samples: Mapping[str, object], classes: Sequence[str]
) -> Iterator[FoundDecision]:
    """Rows whose label is filled in; ValueError where it is no such table.

    Columns: `sample` or `filepath`, `label`, perhaps `reviewer` and `time`, with a comma, a
    semicolon or a tab between them.
    """
    try:
        lines = content.decode("utf-8-sig")
        between = separator(lines.partition("\n")[0])
        rows = csv.DictReader(io.StringIO(lines, newline=""), delimiter=between, strict=True)
        names = rows.fieldnames or []
        if "label" not in names or not {"sample", "filepath"} & set(names):
            raise ValueError("is no table of decisions (it needs columns label and sample)")
        for row in rows:
            label = (row["label"] or "").strip()
            if not label:
                continue
            named = row.get("sample") or _by_path(row.get("filepath") or "", samples)
            unsure = label in UNSURE and label not in classes
            yield FoundDecision(
                named,
                None if unsure else label,
                None,
                row.get("reviewer") or None,
                in_utc(row.get("time")),
            )
    except UnicodeDecodeError:
        raise ValueError("is no text in UTF-8") from None
    except csv.Error as error:
        raise ValueError(f"line {rows.line_num}: is damaged ({error})") from None


def _by_path(path: str, samples: Mapping[str, object]) -> str:
    """The sample whose name the path ends with; tools make paths absolute."""
    plain = path.replace("\\", "/")
    check_path(plain)
    for ending in endings(PurePosixPath(plain)):
        if cell(ending) in samples:
            return ending
    return path

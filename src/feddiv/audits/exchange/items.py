"""What tools are given of a sample, and what they give back of it."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Final

import numpy as np

from feddiv.audits.label_audit import LabelAudit
from feddiv.audits.sample_views import image_file, pixels_of, words_of
from feddiv.core.given_files import read_given
from feddiv.core.names import check_name
from feddiv.core.spreadsheets import behind_cell
from feddiv.data.corrections import DecisionKind

SIDE: Final = 1024  # pixels of an image that is taken along
LARGEST: Final = 1 << 26  # bytes of an image file
CANNOT_TELL: Final = "can't tell"  # a choice beside the classes
DEEPEST: Final = 64  # folders of a path
KINDS: Final = {".png": "png", ".jpg": "jpeg", ".jpeg": "jpeg", ".gif": "gif", ".webp": "webp"}


@dataclass(frozen=True)
class Item:
    """A sample with a doubtful label; what is not known is None."""

    sample: str
    given: str
    predicted: str | None
    quality: float | None
    confidence: float | None
    issue: bool
    action: str | None
    number: int  # in the audit


@dataclass(frozen=True)
class FoundDecision:
    """What a tool says of a sample: `label` None is that nobody could tell.

    `looked` is whether somebody surely looked at it, `time` is in UTC.
    """

    sample: str
    label: str | None
    kind: DecisionKind | None = None  # None: by the label
    reviewer: str | None = None
    time: str | None = None
    looked: bool = True


def chosen(audit: LabelAudit, worst: int | None) -> list[Item]:
    """So many of the most doubtful labels, or all that look wrong; all where nobody judged."""
    columns = audit.columns()
    count = len(audit)
    if worst is not None:
        count = min(worst, count)
    elif audit.judged is not None:
        count = int(audit.is_label_issue.sum())
    return [
        Item(
            columns["sample"][place],
            columns["given_label"][place],
            columns["predicted_label"][place],
            columns["label_quality"][place],
            columns["confidence"][place],
            bool(columns["is_label_issue"][place]),
            columns["action"][place],
            int(number),
        )
        for place, number in enumerate(np.asarray(audit.ranking)[:count])
    ]


def picture(audit: LabelAudit, item: Item) -> tuple[bytes, str] | None:
    """The sample as an image file and its kind; None where it is no image that is here."""
    if audit.samples is not None:
        row = int(audit.samples.rows[item.number])
        pixels = pixels_of(audit.samples.dataset, row, SIDE)
        return None if pixels is None else image_file(pixels, SIDE)
    if audit.data is None or not audit.data.is_dir():
        return None
    home = audit.data.resolve()
    for name in dict.fromkeys((item.sample, behind_cell(item.sample))):  # a list has cells
        file = (home / name).resolve()
        kind = KINDS.get(file.suffix.lower())
        if kind is None or not file.is_relative_to(home):
            return None
        try:
            return read_given(file, LARGEST), kind
        except OSError:
            continue
    return None


def words(audit: LabelAudit, item: Item) -> str | None:
    """The sample as a text; None where it is none that is here."""
    if audit.samples is None:
        return None
    return words_of(audit.samples.dataset, int(audit.samples.rows[item.number]))


def in_a_url(content: bytes, kind: str) -> str:
    """An image that needs no file."""
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def check_path(path: str) -> None:
    """ValueError for a path that no tool writes, and that would take long to look for."""
    check_name("file", path)
    if (folders := path.count("/")) > DEEPEST:
        raise ValueError(
            f"file {path[:40]!r}…: lies in {folders:,} folders, at most {DEEPEST} are allowed"
        )


def endings(path: PurePosixPath) -> Iterator[str]:
    """The path with fewer and fewer of its folders: a sample's name may have slashes itself."""
    left = str(path)
    while left:
        yield left
        left = left.partition("/")[2]


def in_utc(time: object) -> str | None:
    """A tool's time as a decision has it; None where it is none."""
    if not isinstance(time, str):
        return None
    try:
        found = datetime.fromisoformat(time)
        found = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):  # before the calendar begins, in UTC
        return None
    return found.strftime("%Y-%m-%dT%H:%M:%S.%fZ")

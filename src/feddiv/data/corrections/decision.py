"""One decision about one label: a row of corrections.csv."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

from feddiv.core.names import check_name
from feddiv.core.spreadsheets import cell


class DecisionKind(StrEnum):
    """What was decided.

    `confirm`: the given label is right. `correct`: another label is. `cannot_tell`: the reviewer
    looked and does not know. `skip`: later, perhaps. `undo` takes the reviewer's last decision on
    this sample back, `redo` puts back what was undone last. `settle` ends a conflict of reviewers:
    its label counts, whatever they said; without a label nobody can tell.
    """

    CONFIRM = "confirm"
    CORRECT = "correct"
    CANNOT_TELL = "cannot_tell"
    SKIP = "skip"
    UNDO = "undo"
    REDO = "redo"
    SETTLE = "settle"


COLUMNS: Final = ("sample", "given_label", "decision", "label", "reviewer", "time")
KINDS: Final = tuple(DecisionKind)
TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?Z")


@dataclass(frozen=True)
class Decision:
    """A row. `label` is the label that the decision makes, else empty.

    Rows of one action, such as the correction of many samples at once, share `reviewer` and `time`,
    which is in UTC and has microseconds.
    """

    sample: str
    given_label: str
    decision: DecisionKind
    label: str
    reviewer: str
    time: str

    @property
    def judged(self) -> bool:
        """Whether it makes a label, or says that nobody can tell."""
        return self.decision in (
            DecisionKind.CONFIRM,
            DecisionKind.CORRECT,
            DecisionKind.CANNOT_TELL,
            DecisionKind.SETTLE,
        )

    def row(self) -> list[str]:
        """Its cells; what a spreadsheet would take for a formula is none."""
        return [
            cell(self.sample),
            cell(self.given_label),
            self.decision.value,
            cell(self.label),
            cell(self.reviewer),
            self.time,
        ]

    @classmethod
    def of_row(cls, row: list[str]) -> Decision:
        """Read a row; ValueError says what is wrong with it."""
        if len(row) != len(COLUMNS):
            raise ValueError(f"has {len(row)} columns, not {len(COLUMNS)}")
        sample, given, kind, label, reviewer, time = row
        if kind not in KINDS:
            raise ValueError(f"decision {kind!r}: use one of {', '.join(KINDS)}")
        decision = cls(sample, given, DecisionKind(kind), label, reviewer, time)
        decision.check()
        return decision

    def check(self) -> None:
        """ValueError where the parts do not go together."""
        for name in ("sample", "given_label", "reviewer"):
            if not getattr(self, name):
                raise ValueError(f"{name} is empty")
        for name in ("sample", "given_label", "label", "reviewer"):
            check_name(name, cell(getattr(self, name)))  # what is written has to be read again
        if not TIME.fullmatch(self.time) or not _is_moment(self.time):
            raise ValueError(f"time {self.time!r}: write it as 2026-01-31T23:59:59Z")
        kind, label = self.decision, self.label
        if kind is DecisionKind.CONFIRM and label != self.given_label:
            raise ValueError(f"label {label!r}: confirm keeps the given label {self.given_label!r}")
        if kind is DecisionKind.CORRECT and label in ("", self.given_label):
            raise ValueError(f"label {label!r}: correct needs another label than the given one")
        if label and kind not in (DecisionKind.CONFIRM, DecisionKind.CORRECT, DecisionKind.SETTLE):
            raise ValueError(f"label {label!r}: {kind} has none")


def now() -> str:
    """This moment, as a decision's time."""
    return _written(datetime.now(UTC))


def later_than(time: str) -> str:
    """This moment or, where the clock is behind that time, a microsecond after it.

    OverflowError where the calendar ends before.
    """
    return max(now(), _written(datetime.fromisoformat(time) + timedelta(microseconds=1)))


def in_full(time: str) -> str:
    """A decision's time with all its microseconds: texts in the order of their times."""
    seconds, _, fraction = time.removesuffix("Z").partition(".")
    return f"{seconds}.{fraction:0<6}Z"


def _written(moment: datetime) -> str:
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _is_moment(time: str) -> bool:
    """Whether the calendar has it: there is no 30th of February."""
    try:
        datetime.fromisoformat(time)
    except ValueError:
        return False
    return True

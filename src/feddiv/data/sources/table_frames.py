"""Data frames as a table: those of pandas and whatever else is made like them.

Nothing is imported for it. A frame has `columns`, `dtypes` and a length, and gives a column by its
name as something that numpy makes an array of.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np

from feddiv.core.errors import UserError
from feddiv.data.data_options import USUAL_COLUMNS, Columns
from feddiv.data.sources.table_cells import Floats, Table

NUMBERS: Final = ("int", "uint", "float")  # how types of numbers are called, in small letters
NOTHING: Final = ("NAType", "NaTType")  # pandas' own words for no value
OPTIONAL: Final = ("client", "split", "true_label")  # roles that not all frames need to have


def is_frame(data: Any) -> bool:
    """Whether something is a data frame."""
    return all(hasattr(data, name) for name in ("columns", "dtypes", "__len__", "__getitem__"))


@dataclass(frozen=True, eq=False)
class Frame:
    """Rows of a table. `client` and `split` hold for all of them; None means as a column says."""

    where: str  # for errors
    data: Any
    client: str | None = None
    split: str | None = None

    def __len__(self) -> int:
        return len(self.data)

    @cached_property
    def columns(self) -> dict[str, Any]:
        """Names of columns, and what the frame itself calls them."""
        found: dict[str, Any] = {}
        for key in self.data.columns:
            if str(key) in found:
                raise UserError(f"{self.where}: column {str(key)!r} is there twice")
            found[str(key)] = key
        return found

    def column(self, name: str) -> Any:
        """One column of the frame."""
        return self.data[self.columns[name]]


class FrameTable(Table):
    """Frames under each other, which have the same columns but for those of the optional roles."""

    def __init__(self, frames: Sequence[Frame], columns: Columns) -> None:
        super().__init__("clients", "the data frame", Path.cwd())
        self.frames = tuple(frames)
        self._column = {role: _column_of(role, columns, self.frames) for role in OPTIONAL}
        optional = {name for name in self._column.values() if name is not None}
        first = self.frames[0]
        self.names = tuple(name for name in first.columns if name not in optional)
        for frame in self.frames[1:]:
            self._check_same(first, frame, optional)
        self.names += tuple(name for name in self._column.values() if name is not None)
        self._starts = np.cumsum([0, *(len(frame) for frame in self.frames)])
        if not self._starts[-1]:
            raise self.malformed("has no rows")
        given = [frame.client for frame in self.frames if frame.client is not None]
        self.clients = tuple(given) or None

    def _check_same(self, first: Frame, other: Frame, optional: set[str]) -> None:
        theirs = other.columns.keys() - optional
        for name in sorted(set(self.names) ^ theirs):
            holder, lacks = (other, first) if name in theirs else (first, other)
            raise UserError(
                f"{lacks.where}: has no column {name!r}, which {holder.where} has; give all the "
                "same columns"
            )

    def _found(self, row: int) -> tuple[Frame, int]:
        number = int(np.searchsorted(self._starts, row, side="right")) - 1
        return self.frames[number], row - int(self._starts[number])

    def place(self, row: int) -> str:
        """By position in its frame, the first is 0."""
        return f"row {self._found(row)[1]}"

    def number(self, row: int) -> int:
        """In its own frame."""
        return self._found(row)[1]

    def malformed(self, what: str, row: int | None = None) -> UserError:
        """As of the frame that the row is in."""
        where = self.where if row is None else f"{self._found(row)[0].where}, {self.place(row)}"
        return UserError(f"{where}: {what}")

    def texts(self, columns: Sequence[str]) -> list[list[str]]:
        """One column after the other."""
        return [self.as_texts(column, self._values(column)) for column in columns]

    def _values(self, column: str) -> list[Any]:
        values: list[Any] = []
        for frame in self.frames:
            said = None
            if column == self._column["client"]:
                said = frame.client
            elif column == self._column["split"]:
                said = frame.split
            if said is not None or column not in frame.columns:
                values += [said] * len(frame)
            else:
                values += [_plain(each) for each in np.asarray(frame.column(column)).tolist()]
        return values

    def numeric(self, column: str) -> bool:
        """By its type, in all frames."""
        return all(
            str(frame.column(column).dtype).lower().startswith(NUMBERS)
            for frame in self.frames
            if column in frame.columns
        )

    def lists(self, column: str) -> bool:
        """By its first entry."""
        frame = next(frame for frame in self.frames if len(frame))
        there = column in frame.columns
        return there and isinstance(np.asarray(frame.column(column))[0], list | tuple | np.ndarray)

    def vectors(self, columns: Sequence[str]) -> Floats:
        """Columns side by side, or the lists of one column under each other."""
        if len(columns) == 1 and self.lists(columns[0]):
            return self.check_finite(self._stacked(columns[0]), columns)
        numbers = np.empty((int(self._starts[-1]), len(columns)), dtype=np.float32)
        with np.errstate(over="ignore"):
            for place, column in enumerate(columns):
                for start, frame in zip(self._starts, self.frames, strict=False):
                    part = self._floats(column, frame, int(start))
                    numbers[start : start + len(part), place] = part
        return self.check_finite(numbers, columns)

    def _floats(self, column: str, frame: Frame, start: int) -> Floats:
        values = frame.column(column)
        try:
            return np.asarray(values, dtype=np.float32)
        except (TypeError, ValueError):  # one of them is no number
            cells = [_plain(value) for value in np.asarray(values).tolist()]
            return np.array([self._number(column, start + row, v) for row, v in enumerate(cells)])

    def _number(self, column: str, row: int, value: Any) -> float:
        if value is None:
            raise self.malformed(f"{column} is missing", row)
        try:
            return float(value)
        except (TypeError, ValueError):
            raise self.malformed(f"{column} is {str(value)[:40]!r}, not a number", row) from None

    def _stacked(self, column: str) -> Floats:
        rows: list[Floats] = []
        for row, value in enumerate(self._values(column)):
            try:
                rows.append(np.asarray(value, dtype=np.float32))
            except (TypeError, ValueError):
                raise self.malformed(f"{column} is no list of numbers", row) from None
            if rows[row].ndim != 1 or rows[row].shape != rows[0].shape or not rows[row].size:
                raise self.malformed(
                    f"{column} is no list of as many numbers as the first row has", row
                )
        return np.stack(rows)


def _column_of(role: str, columns: Columns, frames: Sequence[Frame]) -> str | None:
    """The column of an optional role: the one that is named, else the usual one if it is there."""
    wanted: str | None = getattr(columns, role)
    names = USUAL_COLUMNS[role] if wanted is None else (wanted,)
    there = (name for name in names if any(name in frame.columns for frame in frames))
    said = any(getattr(frame, role, None) is not None for frame in frames)
    return next(there, names[0] if said else None)


def _plain(value: Any) -> Any:
    """A value as Python has it."""
    if type(value).__name__ in NOTHING:
        return None
    return value.item() if isinstance(value, np.generic) else value

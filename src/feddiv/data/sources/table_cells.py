"""What is asked of a table, wherever its cells are."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from feddiv.core.errors import UserError
from feddiv.core.terminal import NAME, shown
from feddiv.data.names import is_utf8

Floats = npt.NDArray[np.float32]


class Table(ABC):
    """Columns by name. Rows are numbered as their file's readers do.

    `where` names the table in errors, `title` in notes; paths in it start from `folder`. `clients`
    are its clients where they have another order than that of their names.
    """

    names: tuple[str, ...]
    clients: tuple[str, ...] | None = None

    def __init__(self, where: str, title: str, folder: Path) -> None:
        self.where, self.title, self.folder = where, title, folder

    @abstractmethod
    def place(self, row: int) -> str:
        """Where a row is found by a person."""

    def number(self, row: int) -> int:
        """Its row, from 0, in the file or frame that it came from."""
        return row

    @abstractmethod
    def texts(self, columns: Sequence[str]) -> list[list[str]]:
        """Values of these columns as texts, "" where there is none."""

    @abstractmethod
    def numeric(self, column: str) -> bool:
        """Whether a column is made for numbers."""

    @abstractmethod
    def lists(self, column: str) -> bool:
        """Whether each entry is a list of numbers."""

    @abstractmethod
    def vectors(self, columns: Sequence[str]) -> Floats:
        """Finite numbers [N,D]: one column each, or one column of lists."""

    def malformed(self, what: str, row: int | None = None) -> UserError:
        """What is wrong with the table, in one line."""
        place = "" if row is None else f" {self.place(row)}"
        return UserError(f"{self.where}{place}: {what}")

    def check_utf8(self, column: str, text: str, row: int | None = None) -> None:
        """Refuse bytes of another encoding, which no file of ours could say again."""
        if not is_utf8(text):
            raise self.malformed(
                f"{column} {shown(text, NAME)} is not UTF-8: the file has another encoding; save "
                "it in UTF-8",
                row,
            )

    def as_texts(self, column: str, values: list[Any]) -> list[str]:
        """Texts, whole numbers and categories as texts, "" where there is no value."""
        return [self._as_text(column, row, value) for row, value in enumerate(values)]

    def _as_text(self, column: str, row: int, value: Any) -> str:
        if isinstance(value, float):
            if np.isnan(value):
                return ""
            if value.is_integer():
                value = int(value)  # pandas makes whole numbers with gaps so
        if value is None:
            return ""
        if not isinstance(value, str | int):
            raise self.malformed(
                f"{column} is {type(value).__name__} {str(value)[:40]!r}; text or a whole "
                "number is needed",
                row,
            )
        return str(value).strip()

    def check_finite(self, numbers: Floats, columns: Sequence[str]) -> Floats:
        """The same numbers, once every one of them is finite."""
        finite = np.isfinite(numbers)
        if not finite.all():
            row, entry = (int(place[0]) for place in np.nonzero(~finite))
            name = columns[entry] if len(columns) > 1 or numbers.shape[1] == 1 else columns[0]
            raise self.malformed(f"{name} is missing or not finite in float32", row)
        return numbers

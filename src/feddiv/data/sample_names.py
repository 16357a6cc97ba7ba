"""What people call their samples: the file of an image, the row of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, Self

from feddiv.core.arrays import Rows


class SampleNames(Protocol):
    """Names of samples by their numbers in a data set; images in files are such names."""

    def chosen(self, rows: Rows) -> Self:
        """Of these samples only."""

    def name(self, row: int) -> str:
        """What to call it."""


@dataclass(frozen=True, eq=False)
class Numbered:
    """Samples that are known by their row, from 0, in the file or array that they came from."""

    numbers: Rows

    def chosen(self, rows: Rows) -> Numbered:
        """Of these samples only."""
        return Numbered(self.numbers[rows])

    def name(self, row: int) -> str:
        """Its number."""
        return str(self.numbers[row])


@dataclass(frozen=True, eq=False)
class NamesGiven:
    """Samples whose names were given with them."""

    names: tuple[str, ...]

    def chosen(self, rows: Rows) -> NamesGiven:
        """Of these samples only."""
        return NamesGiven(tuple(self.names[row] for row in rows))

    def name(self, row: int) -> str:
        """As it was given."""
        return self.names[row]

"""How a sample looks to whoever judges its label: an image, a text, or numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from feddiv.audits.sample_views import (
    InFiles,
    image_file,
    numbers_of,
    pixels_of,
    read_original,
    words_of,
)
from feddiv.core.arrays import Rows
from feddiv.data import Dataset
from feddiv.review.table_facts import TableFacts

DecisionKind = Literal["image", "text", "vector", "nothing"]
SHORT: Final = 280  # characters of a text in the grid
LONG: Final = 20_000  # on its own
FEW, MANY = 6, 96  # numbers of a vector


@dataclass(frozen=True, eq=False)
class Looks:
    """Samples by their place in a list: place i is row `rows[i]` of the data,
    or -1 where the data do not have it.

    `files` are images that can be read one by one, `dataset` is what a run made of them; one of
    both may be missing. Files are shown only if they lie in one of the folders `within`, wherever
    their names or links lead.
    """

    rows: Rows
    kind: DecisionKind = "nothing"
    dataset: Dataset | None = None
    files: InFiles | None = None
    within: tuple[Path, ...] = ()
    table: TableFacts | None = None

    @classmethod
    def of(
        cls,
        dataset: Dataset,
        rows: Rows,
        within: tuple[Path, ...] = (),
        table: TableFacts | None = None,
    ) -> Looks:
        """Training samples of a data set; its own folder is one of those `within`."""
        files = dataset.names if isinstance(dataset.names, InFiles) else None
        looks = cls(rows, "nothing", dataset, files, (*within, *_home(files)), table)
        return replace(looks, kind=looks._kind())

    @classmethod
    def of_files(
        cls,
        files: InFiles,
        rows: Rows,
        within: tuple[Path, ...] = (),
        table: TableFacts | None = None,
    ) -> Looks:
        """Images that nobody has read yet."""
        return cls(rows, "image", None, files, (*within, *_home(files)), table)

    def ordered(self, places: Rows) -> Looks:
        """The same samples in another order, or some of them."""
        return replace(self, rows=self.rows[places])

    def picture(self, place: int, side: int) -> tuple[bytes, str] | None:
        """An image file, no side much longer than this, and its kind; None where there is none."""
        row, pixels = int(self.rows[place]), None
        if self.kind != "image" or row < 0:
            return None
        if self.files is not None:
            content = self.files.content(row)
            if isinstance(content, Path) and not self._allowed(content):
                return None
            pixels = read_original(content, side)
        if pixels is None and self.dataset is not None:
            pixels = pixels_of(self.dataset, row, side)
        return None if pixels is None else image_file(pixels, side)

    def described(self, place: int, *, whole: bool) -> dict[str, Any]:
        """What is to be read of a sample; in the grid only its beginning."""
        said: dict[str, Any] = {}
        row = int(self.rows[place])
        if row < 0:
            return said
        if self.dataset is not None and self.kind == "text":
            words = words_of(self.dataset, row) or ""
            most = LONG if whole else SHORT
            said["text"] = words if len(words) <= most else f"{words[:most]}…"
        if self.dataset is not None and self.kind == "vector":
            said["numbers"], said["count"] = self._numbers(
                self.dataset, row, MANY if whole else FEW
            )
        if self.table is not None and (whole or self.kind == "vector"):
            said["facts"] = self.table.of(self._name(row))
        return said

    def _name(self, row: int) -> str:
        if self.dataset is not None:
            return self.dataset.name_of(row)
        assert self.files is not None
        return str(self.files.name(row))  # type: ignore[attr-defined]

    def _numbers(self, dataset: Dataset, row: int, most: int) -> tuple[list[Any], int]:
        """(name, value, how many deviations from the mean of all or None) of the first so many."""
        first, count = numbers_of(dataset, row, most)
        known = len(dataset.mean) == count and len(dataset.std) == count
        numbers: list[Any] = []
        for place, (name, value) in enumerate(first):
            z = None
            if known and dataset.std[place] > 0:
                z = round((value - dataset.mean[place]) / dataset.std[place], 2)
            finite = float(f"{value:.4g}") if np.isfinite(value) else None
            numbers.append([name, finite, z if z is not None and np.isfinite(z) else None])
        return numbers, count

    def _kind(self) -> DecisionKind:
        assert self.dataset is not None
        known = self.rows[self.rows >= 0]
        if not len(known):
            return "nothing"
        first = int(known[0])
        if words_of(self.dataset, first) is not None:
            return "text"
        if self.files is not None or self.dataset.image_shape is not None:
            return "image"
        return "vector" if pixels_of(self.dataset, first, 1) is None else "image"

    def _allowed(self, file: Path) -> bool:
        """Whether a file, links followed, lies where the site's data are."""
        try:
            real = file.resolve()
        except (OSError, RuntimeError, ValueError):
            return False
        return any(real.is_relative_to(folder) for folder in self.within)


def _home(files: InFiles | None) -> tuple[Path, ...]:
    """The folder of image files, links followed."""
    root = getattr(files, "root", None)
    return (root.resolve(),) if isinstance(root, Path) else ()

"""Samples that are known by name and not yet read: images in files, with their labels."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol, Self

import numpy as np
import numpy.typing as npt
import torch

from feddiv.core.arrays import Rows
from feddiv.core.errors import UserError
from feddiv.core.terminal import brief, shown
from feddiv.data.transform import Augment

# That a path leads to no file will be seen when it does. Other failures say nothing about the file.
NOT_THERE: Final = frozenset(
    {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG}
)
WHOLE: Final = re.compile(r"-?[0-9]{1,18}")


class Images(Protocol):
    """Images that can be read one by one; they can be handed to another process."""

    def __len__(self) -> int: ...

    def chosen(self, rows: Rows) -> Self:
        """These only."""

    def name(self, row: int) -> str:
        """What to call it."""

    def content(self, row: int) -> Path | bytes:
        """Its file, or what would be in it."""

    def identities(self) -> Iterator[bytes]:
        """Something that changes when any of them does, without reading them."""

    def identity(self, row: int) -> bytes:
        """The same for one of them, whichever others there are."""


@dataclass(frozen=True, eq=False)
class Files:
    """Image files, named relative to a folder."""

    root: Path
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.names)

    def chosen(self, rows: Rows) -> Files:
        """These only."""
        return Files(self.root, tuple(self.names[row] for row in rows))

    def name(self, row: int) -> str:
        """Its path from the folder on."""
        return shown(self.names[row])

    def content(self, row: int) -> Path:
        """Its file."""
        return self.root / self.names[row]

    def identities(self) -> Iterator[bytes]:
        """Path, size and time of change."""
        yield os.fsencode(self.root.absolute())
        for name in self.names:
            yield self._facts(name)

    def identity(self, row: int) -> bytes:
        """The same of one file."""
        return os.fsencode(self.root.absolute()) + b"\0" + self._facts(self.names[row])

    def _facts(self, name: str) -> bytes:
        try:
            facts = os.stat(self.root / name)
            return os.fsencode(f"{name}\0{facts.st_size}\0{facts.st_mtime_ns}")
        except ValueError:  # a zero byte in the name
            return os.fsencode(f"{name}\0-")
        except OSError as error:
            if error.errno not in NOT_THERE:
                path, reason = shown(str(self.root / name)), error.strerror or error
                raise UserError(f"{path}: cannot be read ({reason})") from None
            return os.fsencode(f"{name}\0-")


@dataclass(frozen=True, eq=False)
class Listed:
    """Images and their labels, int64 [N]."""

    images: Images
    labels: Rows

    def __len__(self) -> int:
        return len(self.labels)

    def chosen(self, rows: Rows) -> Listed:
        """These only."""
        return Listed(self.images.chosen(rows), self.labels[rows])


@dataclass(frozen=True, eq=False)
class ImageListing:
    """What a source of images gives: everything about a data set but the pixels.

    The fields are those of `Dataset`. Images become `size` x `size` pixels; training images
    `margin` pixels more, so that a window can be cut out of them. `mean` and `std` None are
    measured on the training images. `split_here` says that the test images were held out by us, not
    given as such. `notes` are lines for the owner of the data.
    """

    name: str
    classes: tuple[str, ...]
    train: Listed
    test: Listed
    size: int
    channels: int
    augment: Augment
    margin: int = 0
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    truth: Rows | None = None
    clients: tuple[str, ...] = ()
    holder: Rows | None = None
    rows: Rows | None = None
    split_here: bool = False
    notes: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()

    @property
    def input_shape(self) -> tuple[int, ...]:
        """One sample as a net will see it, (C,H,W)."""
        return (self.channels, self.size, self.size)

    def chosen(self, rows: torch.Tensor | Rows) -> ImageListing:
        """The same with these training samples only."""
        kept = np.asarray(rows)
        return replace(
            self,
            train=self.train.chosen(kept),
            truth=None if self.truth is None else self.truth[kept],
            holder=None if self.holder is None else self.holder[kept],
            rows=kept if self.rows is None else self.rows[kept],
        )

    def chosen_test(self, rows: torch.Tensor | Rows) -> ImageListing:
        """The same with these test samples only."""
        return replace(self, test=self.test.chosen(np.asarray(rows)))


def numbered(names: Sequence[str]) -> tuple[tuple[str, ...], npt.NDArray[np.int64]]:
    """Sorted distinct names, and the number of each entry; whole numbers sort by value."""
    found = set(names)
    whole = all(WHOLE.fullmatch(name) for name in found)
    ordered = sorted(found, key=lambda name: (int(name), name)) if whole else sorted(found)
    place = {name: number for number, name in enumerate(ordered)}
    return tuple(ordered), np.array([place[name] for name in names], dtype=np.int64)


def some(names: Sequence[str], most: int = 3) -> str:
    """The first few names."""
    return ", ".join(shown(brief(name, 200)) for name in names[:most]) + (
        ", …" if len(names) > most else ""
    )

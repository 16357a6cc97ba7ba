"""What an encoder gets to see: the samples of a source, before they are feature vectors."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, Self

import numpy as np
import numpy.typing as npt
import torch

from feddiv.core.arrays import Rows
from feddiv.core.errors import UserError
from feddiv.data.images.decode import read_image
from feddiv.data.images.listing import Images
from feddiv.data.images.pixel_store import VERSION

KEY: Final = 16  # bytes of a sample's key, for each view
Keys = npt.NDArray[np.uint64]


class Material(Protocol):
    """Samples that can be read a few at a time; they can be handed to another process.

    For texts: `read` gives a list of them, `content` a text as bytes, and there is one view.
    """

    def __len__(self) -> int: ...

    def chosen(self, rows: Rows) -> Self:
        """These only."""

    def name(self, row: int) -> str:
        """What to call one."""

    def content(self, row: int) -> bytes:
        """Something that changes when the sample does: its content, or which file it is."""

    def read(self, rows: Sequence[int]) -> tuple[Any, dict[int, str]]:
        """Those that can be read, as an encoder takes them, and why others cannot."""

    def view(self, samples: Any, number: int) -> Any:
        """Another view of what was read; 0 is the sample itself."""

    def shown(self, row: int) -> Any:
        """One sample as people look at it: pixels, uint8 [H,W,C], or a text."""


def keys(material: Material, views: int) -> Keys:
    """What each view of each sample is known by in the cache, uint64 [N, views, 2].

    The first half of a sha256 is the key of the sample itself, the second that of its other view.
    """
    contents = (material.content(row) for row in range(len(material)))
    digests = b"".join(hashlib.sha256(each).digest()[: KEY * views] for each in contents)
    return np.frombuffer(digests, dtype="<u8").reshape(len(material), views, 2)


class _Pictures:
    """What images in memory and in files have in common."""

    def view(self, samples: torch.Tensor, number: int) -> torch.Tensor:
        """1 is mirrored left to right."""
        return samples.flip(2) if number else samples


@dataclass(frozen=True, eq=False)
class StoredImages(_Pictures):
    """Images that a source has in memory, uint8 [N,H,W,C]; `rows` of them."""

    images: torch.Tensor
    rows: Rows
    what: str  # for errors: "training image"

    @classmethod
    def of(cls, images: torch.Tensor, what: str) -> StoredImages:
        """All of them."""
        return cls(images, np.arange(len(images)), what)

    def __len__(self) -> int:
        return len(self.rows)

    def chosen(self, rows: Rows) -> StoredImages:
        """These only; nothing is copied."""
        return StoredImages(self.images, self.rows[rows], self.what)

    def name(self, row: int) -> str:
        """By its number."""
        return f"{self.what} {self.rows[row]}"

    def content(self, row: int) -> bytes:
        """Shape and pixels."""
        pixels = self.shown(row)
        return f"{pixels.shape}\0".encode() + pixels.tobytes()

    def read(self, rows: Sequence[int]) -> tuple[torch.Tensor, dict[int, str]]:
        """All of them can be read."""
        return self.images[torch.from_numpy(self.rows[list(rows)])], {}

    def shown(self, row: int) -> npt.NDArray[np.uint8]:
        """Its pixels."""
        pixels: npt.NDArray[np.uint8] = self.images.numpy()[self.rows[row]]
        return pixels


@dataclass(frozen=True, eq=False)
class ListedImages(_Pictures):
    """Images in files, read at `side` x `side` pixels when they are needed."""

    images: Images
    side: int
    channels: int

    def __len__(self) -> int:
        return len(self.images)

    def chosen(self, rows: Rows) -> ListedImages:
        """These only."""
        return ListedImages(self.images.chosen(rows), self.side, self.channels)

    def name(self, row: int) -> str:
        """By its file."""
        return self.images.name(row)

    def content(self, row: int) -> bytes:
        """Which file it is, when it was changed, and how it is read; it is not opened."""
        how = f"{VERSION} {self.side} {self.channels}\0".encode()
        return how + self.images.identity(row)

    def read(self, rows: Sequence[int]) -> tuple[torch.Tensor, dict[int, str]]:
        """Decoded now; a damaged image is left out."""
        unreadable: dict[int, str] = {}
        pixels = list(self._pixels(rows, unreadable))
        shape = (len(pixels), self.side, self.side, self.channels)
        return torch.from_numpy(np.array(pixels, dtype=np.uint8).reshape(shape)), unreadable

    def _pixels(
        self, rows: Sequence[int], unreadable: dict[int, str]
    ) -> Iterator[npt.NDArray[np.uint8]]:
        for row in rows:
            found = read_image(self.images, row, self.side, self.channels)
            if isinstance(found, str):
                unreadable[row] = found
            else:
                yield found[0]

    def shown(self, row: int) -> npt.NDArray[np.uint8]:
        """Decoded now."""
        found = read_image(self.images, row, self.side, self.channels)
        if isinstance(found, str):
            raise UserError(f"{self.name(row)}: {found}")
        return found[0]


@dataclass(frozen=True, eq=False)
class Originals:
    """The samples that feature vectors were made of, in the order of the data set."""

    train: Material
    test: Material

    def chosen(self, rows: Rows) -> Originals:
        """With these training samples only."""
        return Originals(self.train.chosen(rows), self.test)

    def chosen_test(self, rows: Rows) -> Originals:
        """With these test samples only."""
        return Originals(self.train, self.test.chosen(rows))

"""Which encoder, and how it is used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["images", "texts"]
Pooling = Literal["mean", "max", "first"]
SMALLEST_SIZE: Final = 8  # pixels, of the side of an image
LARGEST_SIZE: Final = 4096


@dataclass(frozen=True)
class EncoderChoice:
    """Which encoder, and how it is used; None is what is usual for it.

    `name` is one of `registry.py`, a file or an import path. `size` is the side in pixels of the
    images it sees, `mean` and `std` what they are normalised with, `pooling` what is made of
    several vectors for one sample, `views` how many views of a sample are encoded, `sha256` says
    which weights these have to be.
    """

    name: str
    size: int | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    pooling: Pooling | None = None
    views: int = 1
    sha256: str | None = None

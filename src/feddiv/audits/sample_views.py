"""How a sample looks on a page: a thumbnail, its words, or its numbers."""

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from feddiv.core.arrays import Rows
from feddiv.core.errors import UserError
from feddiv.data import Dataset
from feddiv.data.images.pixels import thumbnail
from feddiv.pages import Html, image, tag

SIDE: Final = 144  # pixels of a thumbnail
SMALL: Final = 32  # pixels up to which an image is shown enlarged, with its pixels to be seen
FEW: Final = 8  # numbers of a vector that are shown
WORDS: Final = 280  # characters of a text
View = Callable[[int], Html]


@runtime_checkable
class InFiles(Protocol):
    """Images whose originals can be read one by one, as `data.images.listing.Images` are."""

    def content(self, row: int) -> Path | bytes:
        """Its file, or what would be in it."""

    def identity(self, row: int) -> bytes:
        """Something that changes when it does."""


def nothing(row: int) -> Html:
    """The view of a sample that nobody has here."""
    return Html()


@dataclass(frozen=True, eq=False)
class ShownSamples:
    """The data behind the labels of one site: sample number i is training row `rows[i]`."""

    dataset: Dataset
    rows: Rows


def views_of(dataset: Dataset) -> View:
    """How training samples of a data set look, by their rows."""

    def view(row: int) -> Html:
        words = words_of(dataset, row)
        if words is not None:
            short = words if len(words) <= WORDS else f"{words[:WORDS]}…"
            return tag("span", short, class_="words")
        shown = pixels_of(dataset, row, SIDE)
        return _vector(dataset, row) if shown is None else _picture(shown)

    return view


def pixels_of(dataset: Dataset, row: int, side: int) -> npt.NDArray[np.uint8] | None:
    """A sample as an image, uint8 [H,W,C]: its original, no side longer than this, or what the net
    or its encoder sees of it; None where samples are no images."""
    shown = _original(dataset, row, side)
    return _stored(dataset, row) if shown is None else shown


def words_of(dataset: Dataset, row: int) -> str | None:
    """A sample as a text; None where samples are none."""
    return None if dataset.image_shape is not None else dataset.text(row)  # not read twice


def numbers_of(dataset: Dataset, row: int, most: int) -> tuple[list[tuple[str, float]], int]:
    """The first numbers of a feature vector with their names, if they have any, and how many there
    are."""
    values = dataset.train.rows(torch.tensor([row]))[0].cpu().flatten()
    named = dataset.columns if len(dataset.columns) == len(values) else ()
    first = values[:most].tolist()
    return [(named[place] if named else "", value) for place, value in enumerate(first)], len(
        values
    )


def _original(dataset: Dataset, row: int, side: int) -> npt.NDArray[np.uint8] | None:
    """The image behind a sample; None where there is none any more."""
    if not isinstance(dataset.names, InFiles):
        return None
    return read_original(dataset.names.content(row), side)


def read_original(content: Path | bytes, side: int) -> npt.NDArray[np.uint8] | None:
    """An image file or its content, no side longer than this; None where it is none."""
    try:
        return thumbnail(content, side)
    except Exception:  # Pillow raises whatever its decoders stumble over
        return None


def _stored(dataset: Dataset, row: int) -> npt.NDArray[np.uint8] | None:
    """The pixels that the net or its encoder sees; None where samples are no images."""
    try:
        return dataset.picture(row)
    except UserError:  # its file is gone
        return None


def image_file(pixels: npt.NDArray[np.uint8], side: int) -> tuple[bytes, str]:
    """The content of an image file and its kind: small images keep every pixel."""
    height, width, channels = pixels.shape
    drawn = Image.fromarray(pixels[..., 0] if channels == 1 else pixels[..., :3])
    small = max(height, width) <= SMALL
    if not small:
        drawn.thumbnail((side, side))
    content = io.BytesIO()
    kind = "png" if small else "jpeg"
    drawn.save(content, kind, **({} if small else {"quality": 82}))
    return content.getvalue(), kind


def _picture(pixels: npt.NDArray[np.uint8]) -> Html:
    content, kind = image_file(pixels, SIDE)
    small = max(pixels.shape[:2]) <= SMALL
    return image(content, alt="", kind=kind, class_="tiny" if small else "picture")


def _vector(dataset: Dataset, row: int) -> Html:
    first, count = numbers_of(dataset, row, FEW)
    lines = [f"{name} = {value:.4g}" if name else f"{value:.4g}" for name, value in first]
    more = [f"… {count:,} numbers"] if count > FEW else []
    return tag("span", "\n".join([*lines, *more]), class_="vector")

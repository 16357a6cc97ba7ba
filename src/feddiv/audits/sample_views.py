"""How a sample looks on a page: a thumbnail, its words, or its numbers."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

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


def views_of(dataset: Dataset) -> View:
    """How training samples of a data set look, by their rows."""

    def view(row: int) -> Html:
        words = _text(dataset, row)
        if words is not None:
            return words
        shown = _original(dataset, row)
        if shown is None:
            shown = _stored(dataset, row)
        return _vector(dataset, row) if shown is None else _picture(shown)

    return view


def _original(dataset: Dataset, row: int) -> npt.NDArray[np.uint8] | None:
    """The image behind a sample; None where there is none any more."""
    if not isinstance(dataset.names, InFiles):
        return None
    content = dataset.names.content(row)
    try:
        return thumbnail(content, SIDE)
    except Exception:  # Pillow raises whatever its decoders stumble over
        return None


def _stored(dataset: Dataset, row: int) -> npt.NDArray[np.uint8] | None:
    """The pixels that the net or its encoder sees; None where samples are no images."""
    try:
        return dataset.picture(row)
    except UserError:  # its file is gone
        return None


def _text(dataset: Dataset, row: int) -> Html | None:
    if dataset.image_shape is not None:  # not read twice
        return None
    words = dataset.text(row)
    if words is None:
        return None
    return tag("span", words if len(words) <= WORDS else f"{words[:WORDS]}…", class_="words")


def _picture(pixels: npt.NDArray[np.uint8]) -> Html:
    height, width, channels = pixels.shape
    grey = channels == 1
    drawn = Image.fromarray(pixels[..., 0] if grey else pixels[..., :3])
    small = max(height, width) <= SMALL
    if not small:
        drawn.thumbnail((SIDE, SIDE))
    content = io.BytesIO()
    kind = "png" if small else "jpeg"
    drawn.save(content, kind, **({} if small else {"quality": 82}))
    return image(content.getvalue(), alt="", kind=kind, class_="tiny" if small else "picture")


def _vector(dataset: Dataset, row: int) -> Html:
    values = dataset.train.rows(torch.tensor([row]))[0].cpu().flatten().tolist()
    named = dataset.columns if len(dataset.columns) == len(values) else ()
    lines = [
        f"{named[place]} = {value:.4g}" if named else f"{value:.4g}"
        for place, value in enumerate(values[:FEW])
    ]
    more = [f"… {len(values):,} numbers"] if len(values) > FEW else []
    return tag("span", "\n".join([*lines, *more]), class_="vector")

"""From an image file to pixels: one rule for training and for prediction."""

import io
import os
import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps

MODES: Final = {1: "L", 3: "RGB", 4: "RGBA"}  # by channels
ALPHA: Final = ("RGBA", "LA", "PA", "RGBa", "La")
# Pillow would also open what starts other programs (EPS) or needs their libraries: never.
RASTER: Final = (
    "AVIF", "BMP", "DIB", "GIF", "JPEG", "JPEG2000", "MPO", "PNG", "PPM", "TIFF", "WEBP",
)  # fmt: skip
# Pillow allows twice its own bound before it refuses; ours does not depend on its version.
MOST_PIXELS: Final = 128 << 20
BITS_PER_SAMPLE, SAMPLE_FORMAT = 258, 339  # tags of TIFF
UNSIGNED: Final = 1


@cache
def image_formats() -> tuple[str, ...]:
    """Formats that are opened, by Pillow's names: those that this Pillow was built with."""
    Image.init()
    return tuple(kind for kind in RASTER if kind in Image.OPEN)


@cache
def image_suffixes() -> frozenset[str]:
    """Endings of files in these formats, in lower case."""
    known = Image.registered_extensions()
    return frozenset(end for end, kind in known.items() if kind in image_formats())


def pixels(image: Path | bytes, height: int, width: int, channels: int) -> npt.NDArray[np.uint8]:
    """uint8 [H,W,C] of an image file or its content, stretched to this size.

    Turned upright as its EXIF says; transparent parts are white where the result has no alpha; more
    than eight bits of grey keep the upper eight of as many as the file says it has. Raises whatever
    Pillow's decoders stumble over, and for an image of more than MOST_PIXELS.
    """
    return pixels_and_reach(image, height, width, channels)[0]


def pixels_and_reach(
    image: Path | bytes, height: int, width: int, channels: int
) -> tuple[npt.NDArray[np.uint8], float | None]:
    """The pixels, and how much of its range an image of more than eight bits of grey makes use of.

    The latter from 0 to 1, or None for images of eight bits.
    """
    with _opened(image, 2 * max(height, width)) as opened:
        return _fitted(opened, height, width, channels)


def thumbnail(image: Path | bytes, side: int) -> npt.NDArray[np.uint8]:
    """uint8 [H,W,3], in its own proportions and no side longer than this, for people to look at."""
    with _opened(image, 2 * side) as opened:
        width, height = ImageOps.exif_transpose(opened).size
        shrink = min(side / max(width, height), 1.0)
        height, width = max(round(height * shrink), 1), max(round(width * shrink), 1)
        return _fitted(opened, height, width, 3)[0]


@contextmanager
def _opened(image: Path | bytes, enough: int) -> Iterator[Image.Image]:
    """The image, not yet decoded; so many pixels along its longer side will do."""
    if isinstance(image, Path) and not stat.S_ISREG(os.stat(image).st_mode):
        raise ValueError("not a file")  # a pipe would be waited for
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about odd metadata, and images that are merely large
        content = io.BytesIO(image) if isinstance(image, bytes) else image
        with Image.open(content, formats=image_formats()) as opened:
            _check_pixels(opened)
            # A large JPEG is decoded at a half, a quarter or an eighth: never below twice the goal.
            opened.draft(None, (enough, enough))
            yield opened


def _check_pixels(image: Image.Image) -> None:
    """Refuse by its header, before anything is decoded."""
    width, height = image.size
    if width * height > MOST_PIXELS:
        raise ValueError(f"{width:,} x {height:,} pixels; at most {MOST_PIXELS:,} are decoded")


def image_pixels(
    image: Image.Image, height: int, width: int, channels: int
) -> npt.NDArray[np.uint8]:
    """The same of an image that is open already."""
    _check_pixels(image)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _fitted(image, height, width, channels)[0]


def _fitted(
    image: Image.Image, height: int, width: int, channels: int
) -> tuple[npt.NDArray[np.uint8], float | None]:
    upright, reach = ImageOps.exif_transpose(image), None
    if upright.mode.startswith("I"):
        upright, reach = _eight_bits(upright, _depth(image))
    plain = _converted(upright, channels)
    if plain.size != (width, height):
        plain = plain.resize((width, height), Image.Resampling.BILINEAR)
    return np.asarray(plain, np.uint8).reshape(height, width, channels), reach


def _depth(image: Image.Image) -> int:
    """Bits of grey of a file that has more than eight of them.

    Only TIFF stores fewer than 16 as they are: other writers, or Pillow, spread them over all 16.
    """
    tags = getattr(image, "tag_v2", {}) if image.format == "TIFF" else {}
    bits = int(tags.get(BITS_PER_SAMPLE, (16,))[0])
    if bits > 16 or tags.get(SAMPLE_FORMAT, (UNSIGNED,))[0] != UNSIGNED:
        kind = f"{bits}-bit" if bits > 16 else "signed"
        raise ValueError(f"its pixels are {kind} integers of unknown scale")
    return bits


def _eight_bits(image: Image.Image, depth: int) -> tuple[Image.Image, float]:
    """Pillow itself would clip at 255."""
    grey = np.asarray(image)
    upper = (grey >> (depth - 8)).clip(0, 255).astype(np.uint8)
    return Image.fromarray(upper), float(grey.max()) / (2**depth - 1)


def _converted(image: Image.Image, channels: int) -> Image.Image:
    if image.mode == "F":
        raise ValueError("its pixels are floating-point numbers of unknown scale")
    if channels != 4 and (image.mode in ALPHA or "transparency" in image.info):
        see_through = image.convert("RGBA")
        image = Image.new("RGBA", image.size, "white")
        image.alpha_composite(see_through)
    return image.convert(MODES[channels])

"""From an image file to pixels: one rule for training and for prediction."""

import io
import warnings
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps

MODES: Final = {1: "L", 3: "RGB", 4: "RGBA"}  # by channels
ALPHA: Final = ("RGBA", "LA", "PA", "RGBa", "La")


@cache
def image_suffixes() -> frozenset[str]:
    """Endings of files that Pillow may be able to read, in lower case."""
    known = Image.registered_extensions()
    return frozenset(end for end, kind in known.items() if kind in Image.OPEN)


def pixels(image: Path | bytes, height: int, width: int, channels: int) -> npt.NDArray[np.uint8]:
    """uint8 [H,W,C] of an image file or its content, stretched to this size.

    Turned upright as its EXIF says; transparent parts are white where the result has no alpha; 16
    bits of grey keep the upper eight. Raises whatever Pillow's decoders stumble over, and for an
    image of more than 179 million pixels.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about odd metadata, and images that are merely large
        with Image.open(io.BytesIO(image) if isinstance(image, bytes) else image) as opened:
            # A large JPEG is decoded at a half, a quarter or an eighth: never below twice the goal.
            opened.draft(None, (2 * max(height, width),) * 2)
            upright = ImageOps.exif_transpose(opened)
            plain = _converted(upright, channels)
            if plain.size != (width, height):
                plain = plain.resize((width, height), Image.Resampling.BILINEAR)
    return np.asarray(plain, np.uint8).reshape(height, width, channels)


def _converted(image: Image.Image, channels: int) -> Image.Image:
    if image.mode == "F":
        raise ValueError("its pixels are floating-point numbers of unknown scale")
    if image.mode.startswith("I"):  # Pillow would clip 16 bits at 255
        image = Image.fromarray((np.asarray(image) >> 8).clip(0, 255).astype(np.uint8))
    if channels != 4 and (image.mode in ALPHA or "transparency" in image.info):
        see_through = image.convert("RGBA")
        image = Image.new("RGBA", image.size, "white")
        image.alpha_composite(see_through)
    return image.convert(MODES[channels])

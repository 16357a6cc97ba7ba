"""Samples to predict that somebody has in Python."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from feddiv.core.errors import UserError, in_one_line
from feddiv.data.data_options import Columns
from feddiv.data.images.pixels import image_pixels, pixels
from feddiv.data.sources.table_frames import Frame, FrameTable, is_frame
from feddiv.runs.model_card import ModelCard
from feddiv.runs.predict_columns import feature_columns, image_column

# Arrays, one PIL image or path, several of them, or a data frame.
Inputs = Any


def as_array(inputs: Inputs, card: ModelCard) -> npt.NDArray[Any]:
    """Samples [N, ...] of what was given; images and files become what the model takes."""
    if isinstance(inputs, np.ndarray):
        return inputs
    if isinstance(inputs, torch.Tensor):
        return inputs.detach().cpu().numpy()
    if is_frame(inputs):
        return _frame(inputs, card)
    one = isinstance(inputs, Image.Image | str | Path)
    samples = [inputs] if one else inputs
    if not isinstance(samples, list | tuple):
        raise UserError(
            f"samples are a {type(inputs).__name__}; give an array, PIL images, paths of images, "
            "or a data frame"
        )
    if not samples:
        return np.zeros((0, *card.sample_shape), np.uint8 if card.takes_images else np.float32)
    return np.stack([_sample(each, number, card) for number, each in enumerate(samples)])


def _frame(frame: Any, card: ModelCard) -> npt.NDArray[Any]:
    table = FrameTable([Frame("samples", frame)], Columns())
    if not card.takes_images:
        return table.vectors(feature_columns(table, card))
    (paths,) = table.texts([image_column(table, card)])
    return as_array([table.folder / path for path in paths], card)


def _sample(sample: Any, number: int, card: ModelCard) -> npt.NDArray[Any]:
    """One of several samples."""
    if isinstance(sample, np.ndarray):
        return sample
    if isinstance(sample, torch.Tensor):
        return sample.detach().cpu().numpy()
    is_image = isinstance(sample, Image.Image | str | Path)
    if is_image and not card.takes_images:
        raise UserError(f"sample {number} is an image; this model takes {card.input_shape}")
    if not is_image:
        raise UserError(
            f"sample {number} is a {type(sample).__name__}; give an array, a PIL image or the path "
            "of an image"
        )
    height, width, channels = card.sample_shape
    try:
        if isinstance(sample, Image.Image):
            return image_pixels(sample, height, width, channels)
        return pixels(Path(sample).expanduser(), height, width, channels)
    except Exception as problem:  # Pillow raises whatever its decoders stumble over
        name = "" if isinstance(sample, Image.Image) else f", {sample},"
        raise UserError(
            f"sample {number}{name} cannot be read as an image ({in_one_line(problem)})"
        ) from None

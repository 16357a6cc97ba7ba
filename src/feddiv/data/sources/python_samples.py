"""One sample that was brought along in Python: uint8 pixels, or a float32 vector."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from feddiv.core.archives import described
from feddiv.core.errors import UserError, in_one_line
from feddiv.data.data_options import DataOptions
from feddiv.data.images.own_listing import SIZE
from feddiv.data.images.pixels import image_pixels, pixels

CHANNELS: Final = (1, 3, 4)


@dataclass(frozen=True)
class SampleReader:
    """Samples of all kinds in one form.

    `size` and `channels` are data.size and data.channels: PIL images and files are brought to
    them. Without a size PIL images keep theirs, and files get the usual one.
    """

    size: int | None = None
    channels: int = 3

    @classmethod
    def of(cls, options: DataOptions) -> "SampleReader":
        """As the run's settings say."""
        return cls(options.size, options.channels)

    def __call__(self, sample: Any, where: str) -> npt.NDArray[Any]:
        """uint8 [H,W,C] or float32 [D]; `where` says in errors which sample it is."""
        if isinstance(sample, str | Path):
            return self._file(Path(sample), where)
        if isinstance(sample, Image.Image):
            return self._image(sample, where)
        found = as_array(sample, where)
        if found.ndim == 3 and (self.size is not None or self.channels != 3):
            key, value = ("size", self.size) if self.size is not None else ("channels", 1)
            raise UserError(
                f"data.{key}={value}: {where} is an array, which is taken as it is; "
                "only PIL images and files are resized and converted"
            )
        return found

    def _file(self, path: Path, where: str) -> npt.NDArray[np.uint8]:
        size = self.size or SIZE
        try:
            return pixels(path.expanduser(), size, size, self.channels)
        except Exception as problem:  # Pillow raises whatever its decoders stumble over
            raise UserError(
                f"{where}: {path} cannot be read as an image ({in_one_line(problem)})"
            ) from None

    def _image(self, image: Image.Image, where: str) -> npt.NDArray[np.uint8]:
        if self.size is None and self.channels == 3:
            if image.mode[0] in "IF":
                raise UserError(
                    f"{where} is an image of mode {image.mode}; give 8 bits a channel, or "
                    "data.size, which converts images"
                )
            return as_array(image.convert("L" if image.mode in ("1", "L") else "RGB"), where)
        height, width = (self.size or image.height), (self.size or image.width)
        try:
            return image_pixels(image, height, width, self.channels)
        except ValueError as problem:
            raise UserError(f"{where}: {in_one_line(problem)}") from None


def as_array(sample: Any, where: str) -> npt.NDArray[Any]:
    """uint8 [H,W,C] or float32 [D] of an array, a tensor, a list of numbers or an image."""
    channels_first = isinstance(sample, torch.Tensor)  # torch's way; others have them last
    if isinstance(sample, torch.Tensor):
        sample = sample.detach().cpu()
        sample = sample.float() if sample.dtype == torch.bfloat16 else sample
    elif isinstance(sample, list) and all(isinstance(each, int | float) for each in sample):
        sample = np.asarray(sample, dtype=np.float32)
    elif not isinstance(sample, np.ndarray | Image.Image):
        raise UserError(
            f"{where} is a {type(sample).__name__}; give a PIL image, an array, a tensor or the "
            "path of an image"
        )
    array = np.asarray(sample)
    if array.dtype.kind == "f":
        _finite(array.astype(np.float32), where)
    if array.ndim == 1 and array.dtype.kind == "f":
        return array.astype(np.float32)
    if array.ndim not in (2, 3) or (array.dtype != np.uint8 and array.dtype.kind != "f"):
        raise UserError(
            f"{where} is {described(array)}; give an image (uint8, or float from 0 to 1) "
            "or a vector (float)"
        )
    return _pixels(_channels_last(array, where, first=channels_first), where)


def as_it_is(sample: Any, where: str) -> npt.NDArray[np.float32]:
    """float32, of the shape it has: what a net eats."""
    array = sample.detach().cpu().float().numpy() if isinstance(sample, torch.Tensor) else sample
    floating = isinstance(array, np.ndarray) and array.dtype.kind == "f"
    if not floating or (isinstance(sample, torch.Tensor) and not sample.is_floating_point()):
        kind = f"{sample.dtype} " if isinstance(sample, torch.Tensor | np.ndarray) else ""
        raise UserError(
            f"{where} is a {kind}{type(sample).__name__}; "
            "give what the net eats, a tensor of floats"
        )
    return _finite(np.asarray(array, np.float32), where)


def _finite(array: npt.NDArray[np.float32], where: str) -> npt.NDArray[np.float32]:
    if not np.isfinite(array).all():
        raise UserError(f"{where} holds a value that is not finite in float32")
    return array


def _channels_last(array: npt.NDArray[Any], where: str, *, first: bool) -> npt.NDArray[Any]:
    """[H,W,C]; channels are where there are 1, 3 or 4 of them, `first` decides if both ends do."""
    if array.ndim == 2:
        return array[..., None]
    ends = (array.shape[0] in CHANNELS, array.shape[2] in CHANNELS)
    if not any(ends):
        raise UserError(f"{where} is {described(array)}; an image has 1, 3 or 4 channels")
    leading = ends[0] and (first or not ends[1])
    return np.moveaxis(array, 0, 2) if leading else array


def _pixels(image: npt.NDArray[Any], where: str) -> npt.NDArray[np.uint8]:
    if image.dtype == np.uint8:
        return image
    low, high = float(image.min(initial=0)), float(image.max(initial=0))
    if low < 0 or high > 1:
        raise UserError(
            f"{where} has pixels from {low:.3g} to {high:.3g}; give them from 0 to 1, "
            "before they are normalised: that is done later"
        )
    return np.asarray(np.rint(image * 255), dtype=np.uint8)

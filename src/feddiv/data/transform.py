"""From stored rows to what a net eats, a whole batch at a time.

At a batch of ten images the arithmetic is nothing and the number of tensor operations is
everything, so cropping is one gather of whole pixel rows and normalising works on rows of
width x channels, which vectorise where rows of three channels would not.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from pydantic import Field

from feddiv.core.errors import UserError
from feddiv.core.options import Options


class Augment(Options):
    """Random changes to a training image: shift by up to `pad` pixels, mirror left to right."""

    pad: int = Field(default=0, ge=0, le=4096)
    flip: bool = False  # mirror left to right


@dataclass(frozen=True)
class Transform:
    """Normalisation, with or without augmentation before it.

    `mean` and `std` are per channel of pixel values in [0,1], or per feature of a vector; one
    number serves all channels or features. Images that are larger than `window` (height, width) are
    cut to it: at random before augmentation, else in the middle.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    augment: Augment
    window: tuple[int, int] | None = None

    @cached_property
    def _constants(self) -> dict[tuple[object, ...], tuple[torch.Tensor, torch.Tensor]]:
        """Shift and scale by device and shape of a row, made when first needed."""
        return {}

    def _shift_and_scale(self, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """What to subtract from a row of these inputs and what to multiply it with."""
        key = (inputs.device, *inputs.shape[2:])
        if key not in self._constants:
            shift, scale = torch.tensor(self.mean), 1 / torch.tensor(self.std)
            if inputs.dim() == 4:
                width, channels = inputs.shape[2:]
                shift = (shift * 255).expand(channels).repeat(width)
                scale = (scale / 255).expand(channels).repeat(width)
            self._constants[key] = shift.to(inputs.device), scale.to(inputs.device)
        return self._constants[key]

    def _smaller_window(self, inputs: torch.Tensor) -> tuple[int, int] | None:
        """What is to be cut out of these inputs, if anything."""
        return self.window if inputs.shape[1:3] != self.window else None

    def draws_for(self, inputs: torch.Tensor) -> bool:
        """Whether `augmented` may give these stored rows otherwise than `plain`."""
        cropped = self._smaller_window(inputs) is not None
        return inputs.dim() == 4 and (self.augment.flip or self.augment.pad > 0 or cropped)

    def plain(self, inputs: torch.Tensor) -> torch.Tensor:
        """Normalised float32: uint8 [B,H,W,C] -> [B,C,H,W] in channels_last, or [B,D] -> [B,D]."""
        if window := self._smaller_window(inputs):
            inputs = _middle(inputs, *window)
        shift, scale = self._shift_and_scale(inputs)
        if inputs.dim() != 4:
            return (inputs.to(torch.float32) - shift).mul_(scale)
        batch, height, width, channels = inputs.shape
        rows = inputs.reshape(batch, height, width * channels).to(torch.float32)
        return rows.sub_(shift).mul_(scale).view(inputs.shape).permute(0, 3, 1, 2)

    def augmented(self, inputs: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """As `plain`, after an independent random flip and crop of every image.

        The crop pads the raw image, so the border is black before normalisation, as in the
        benchmark's code. Feature vectors have no geometry and are only normalised.
        """
        if inputs.dim() == 4 and len(inputs):
            if window := self._smaller_window(inputs):
                inputs = _cut(inputs, *window, generator)
            if self.augment.flip:
                inputs = _flip(inputs, generator)
            if self.augment.pad:
                inputs = _crop(inputs, self.augment.pad, generator)
        return self.plain(inputs)


@dataclass(frozen=True)
class AsTheyAre(Transform):
    """Samples of any shape that are what a net eats already: float32 [N, ...], never changed.

    `each` is somebody's own random change to one sample, for training only.
    """

    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    augment: Augment = field(default_factory=Augment)
    each: Callable[[torch.Tensor], torch.Tensor] | None = None

    def draws_for(self, inputs: torch.Tensor) -> bool:
        """Where somebody's own change is made."""
        return self.each is not None

    def plain(self, inputs: torch.Tensor) -> torch.Tensor:
        """The same."""
        return inputs

    def augmented(self, inputs: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Every sample changed on its own, by draws that start from the generator's."""
        if self.each is None or not len(inputs):
            return inputs
        with _seeded(int(torch.randint(0, 2**62, (), generator=generator))):
            changed = [torch.as_tensor(self.each(sample)) for sample in inputs]
        if any(sample.shape != inputs.shape[1:] for sample in changed):
            shapes = sorted({tuple(sample.shape) for sample in changed})
            raise UserError(
                f"train_transform gives samples of shape {shapes[0]}; "
                f"they have to stay {tuple(inputs.shape[1:])}"
            )
        return torch.stack(changed).to(inputs)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed every generator that a transform may draw from, inside the block."""
    before, numpys = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            random.seed(seed)
            np.random.seed(seed % 2**32)
            yield
    finally:
        random.setstate(before)
        np.random.set_state(numpys)


def _flip(images: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Mirror each image of [B,H,W,C] with probability 1/2."""
    coin = torch.randint(0, 2, (len(images), 1, 1, 1), generator=generator, device=generator.device)
    return torch.where(coin.to(images.device).bool(), images.flip(2), images)


def _crop(images: torch.Tensor, pad: int, generator: torch.Generator) -> torch.Tensor:
    """Cut a window of the original size at a random place of each zero-padded image."""
    batch, height, width, channels = images.shape
    canvas = images.new_zeros(batch, height + 2 * pad, width + 2 * pad, channels)
    canvas[:, pad : pad + height, pad : pad + width] = images
    return _cut(canvas, height, width, generator)


def _cut(canvas: torch.Tensor, height: int, width: int, generator: torch.Generator) -> torch.Tensor:
    """Cut a window of this size at a random place of each image, which is as much wider as taller.

    `canvas` is contiguous.
    """
    batch, tall, wide, channels = canvas.shape
    corner = torch.randint(
        0, tall - height + 1, (2, batch, 1), generator=generator, device=generator.device
    ).to(canvas.device)
    image = torch.arange(batch, device=canvas.device).unsqueeze(1)
    row = torch.arange(height, device=canvas.device)
    start = (image * tall + corner[0] + row) * wide + corner[1]  # [B,H], counted in pixels

    # Every run of `width` pixels of the canvas as an overlapping view, one per first pixel.
    runs = canvas.view(-1).unfold(0, width * channels, channels)
    return runs.index_select(0, start.view(-1)).view(batch, height, width, channels)


def _middle(images: torch.Tensor, height: int, width: int) -> torch.Tensor:
    top, left = (images.shape[1] - height) // 2, (images.shape[2] - width) // 2
    return images[:, top : top + height, left : left + width]

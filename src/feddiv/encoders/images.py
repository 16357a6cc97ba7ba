"""What encoders of images have in common: from stored pixels to a net's input, and out of it."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import replace
from functools import cached_property
from typing import Final

import torch

from feddiv.core.errors import UserError, in_one_line
from feddiv.encoders.choice import LARGEST_SIZE, SMALLEST_SIZE, EncoderChoice, Pooling
from feddiv.encoders.contract import Encoder, width_of

IMAGENET_MEAN: Final = (0.485, 0.456, 0.406)
IMAGENET_STD: Final = (0.229, 0.224, 0.225)
USUAL_SIZE: Final = 224  # of what nets are trained on
# Images as small as CIFAR's gain little from more pixels, and 96 cost a fifth of 224.
SMALL, SMALL_SIZE = 64, 96
PIXELS_AT_A_TIME, MOST_AT_A_TIME = 32 * 96 * 96, 64  # pixels, images
COLOURS: Final = 3


def usual_size(side: int | None) -> int:
    """The side in pixels that images of this side are brought to where nobody says."""
    return SMALL_SIZE if side is not None and side <= SMALL else USUAL_SIZE


def completed(
    choice: EncoderChoice,
    *,
    sha256: str,
    size: float,
    mean: tuple[float, ...],
    std: tuple[float, ...],
    pooling: Pooling | None = None,
) -> EncoderChoice:
    """The choice with these values where it leaves something open."""
    size, mean, std = choice.size or size, choice.mean or mean, choice.std or std
    if not SMALLEST_SIZE <= size <= LARGEST_SIZE:
        raise UserError(
            f"data.encoder={choice.name}: says that it takes images of {size:.6g} pixels a side; "
            f"possible are {SMALLEST_SIZE} to {LARGEST_SIZE:,} (data.encoder_size)"
        )
    if not all(map(math.isfinite, mean + std)) or any(each <= 0 for each in std):
        raise UserError(
            f"data.encoder={choice.name}: says that images are normalised by mean "
            f"{_listed(mean)} and std {_listed(std)}, which cannot be; set data.encoder_mean and "
            "data.encoder_std"
        )
    return replace(
        choice,
        size=int(size),
        mean=_for_colours("mean", mean),
        std=_for_colours("std", std),
        pooling=choice.pooling or pooling,
        sha256=sha256,
    )


def _listed(numbers: tuple[float, ...]) -> str:
    return ", ".join(f"{number:.6g}" for number in numbers[: COLOURS + 1])


def _for_colours(key: str, numbers: tuple[float, ...]) -> tuple[float, ...]:
    if len(numbers) not in (1, COLOURS):
        raise UserError(
            f"data.encoder_{key}={_listed(numbers)}: give 1 number, or {COLOURS}, one "
            "for each colour"
        )
    return numbers if len(numbers) == COLOURS else numbers * COLOURS


class ImageEncoder(Encoder):
    """An encoder of images: resizes and normalises them, then asks `forward`."""

    kind = "images"

    def __init__(self, choice: EncoderChoice) -> None:
        self.choice = choice
        self.batch = min(MOST_AT_A_TIME, max(1, PIXELS_AT_A_TIME // self.size**2))

    @property
    def size(self) -> int:
        """The side of the images it sees, in pixels."""
        assert self.choice.size is not None
        return self.choice.size

    @cached_property
    def width(self) -> int:  # type: ignore[override]  # it is found out by trying
        """How many features a blank image has."""
        blank = torch.zeros(1, self.size, self.size, COLOURS, dtype=torch.uint8)
        return width_of(self.encode(blank), self.choice)

    @cached_property
    def _shift_and_scale(self) -> tuple[torch.Tensor, torch.Tensor]:
        assert self.choice.mean is not None
        assert self.choice.std is not None
        return torch.tensor(self.choice.mean) * 255, 1 / (torch.tensor(self.choice.std) * 255)

    @abstractmethod
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """What the net gives for float32 [n,3,S,S]."""

    def encode(self, samples: torch.Tensor) -> torch.Tensor:
        """Feature vectors, float32 [n, width], of uint8 images [n,H,W,C]."""
        with torch.inference_mode():
            try:
                outputs = self.forward(self._inputs(samples))
            except UserError:
                raise
            except Exception as problem:  # it is somebody else's net
                raise UserError(
                    f"data.encoder={self.choice.name} fails on images of "
                    f"{self.size}x{self.size} pixels: {in_one_line(problem)}"
                ) from problem
            return pooled(outputs, self.choice, len(samples)).float().contiguous()

    def _inputs(self, images: torch.Tensor) -> torch.Tensor:
        """float32 [n,3,S,S] in channels_last."""
        height, width, channels = images.shape[1:]
        if channels not in (1, COLOURS):
            raise UserError(
                f"data.encoder={self.choice.name}: images have {channels} channels; it takes "
                "colour (3) and grey (1)"
            )
        shift, scale = self._shift_and_scale
        # Resizing is linear, so it may come after normalising: there are fewer pixels before.
        plain = (images.expand(-1, -1, -1, COLOURS).float() - shift).mul_(scale)
        inputs = plain.permute(0, 3, 1, 2)
        if (height, width) == (self.size, self.size):
            return inputs
        smaller = max(height, width) > self.size
        return torch.nn.functional.interpolate(
            inputs, (self.size, self.size), mode="bilinear", antialias=smaller
        )


def pooled(outputs: object, choice: EncoderChoice, count: int) -> torch.Tensor:
    """One vector for each of `count` samples, or a line that says why there is none.

    Outputs are [n,D], or with pooling maps [n,D,h,w] or tokens [n,T,D].
    """
    name = f"data.encoder={choice.name}"
    if not isinstance(outputs, torch.Tensor):
        raise UserError(f"{name} gives a {type(outputs).__name__} and no tensor of features")
    shape = tuple(outputs.shape)
    if outputs.dim() not in (2, 3, 4) or len(outputs) != count:
        raise UserError(
            f"{name} gives shape {shape} for {count} images; wanted is one vector each, "
            f"({count}, D)"
        )
    if outputs.is_complex():
        raise UserError(f"{name} gives complex numbers; wanted is one vector of real ones an image")
    if outputs.dim() == 2:
        if choice.pooling is not None:
            raise UserError(
                f"data.encoder_pooling={choice.pooling}: {name} gives one vector for an image "
                "already; leave it out"
            )
        return outputs
    how = choice.pooling
    if how is None or (how == "first" and outputs.dim() == 4):
        allowed = "mean, max or first" if outputs.dim() == 3 else "mean or max"
        raise UserError(
            f"{name} gives no vector for an image but shape {shape[1:]}; set data.encoder_pooling "
            f"to {allowed}"
        )
    if how == "first":
        return outputs[:, 0]
    over = (1,) if outputs.dim() == 3 else (2, 3)
    if how == "max":
        return outputs.amax(over)
    # Whole numbers have no mean of their own type.
    return (outputs if outputs.is_floating_point() else outputs.float()).mean(over)

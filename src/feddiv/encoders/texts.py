"""What encoders of texts have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import torch

from feddiv.core.errors import UserError, in_one_line
from feddiv.encoders.choice import EncoderChoice, Pooling
from feddiv.encoders.contract import Encoder, width_of


def completed(
    choice: EncoderChoice, *, sha256: str, pooling: Pooling | None = None
) -> EncoderChoice:
    """The choice with these values; what is only for images is refused."""
    for key, value in (
        ("size", choice.size),
        ("mean", choice.mean),
        ("std", choice.std),
        ("views", choice.views if choice.views != 1 else None),
    ):
        if value is not None:
            raise UserError(
                f"data.encoder_{key}={value}: is for images, and data.encoder={choice.name} "
                "encodes texts"
            )
    return replace(choice, pooling=choice.pooling or pooling, sha256=sha256)


class TextEncoder(Encoder):
    """An encoder of texts, asked for one after the other.

    Texts of different lengths in one batch would be padded, and a vector's last bits depend on the
    other texts then.
    """

    kind = "texts"
    batch = 1

    def __init__(self, choice: EncoderChoice) -> None:
        self.choice = choice

    @cached_property
    def width(self) -> int:  # type: ignore[override]  # it is found out by trying
        """How many features a short text has."""
        return width_of(self.encode(["a"]), self.choice)

    @abstractmethod
    def vector(self, text: str) -> torch.Tensor:
        """The features of one text, [width]."""

    def encode(self, samples: Sequence[str]) -> torch.Tensor:
        """Feature vectors, float32 [n, width]."""
        if not samples:
            return torch.empty((0, self.width))
        with torch.inference_mode():
            try:
                vectors = [self.vector(text).float() for text in samples]
            except UserError:
                raise
            except Exception as problem:  # it is somebody else's net
                raise UserError(
                    f"data.encoder={self.choice.name} fails on a text: {in_one_line(problem)}"
                ) from problem
            return torch.stack(vectors).contiguous()

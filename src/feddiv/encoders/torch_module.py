"""A torch module of somebody's own as encoder: "package.module:factory"."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

import torch
from torch import nn

from feddiv.core.errors import UserError, in_one_line
from feddiv.core.files import tensors_hash
from feddiv.core.import_path import import_for
from feddiv.encoders.choice import EncoderChoice
from feddiv.encoders.contract import Encoder
from feddiv.encoders.images import COLOURS, ImageEncoder, completed, usual_size

MOST_APART: Final = 0.02  # of the largest feature; sums in another order differ by far less
PROBE: Final = 256  # largest side in pixels of the image whose features stand for the code


class ModuleEncoder(ImageEncoder):
    """A module that takes float32 [n,3,S,S]."""

    def __init__(self, choice: EncoderChoice, net: nn.Module) -> None:
        super().__init__(choice)
        self.net = net.eval().requires_grad_(False)
        for weight in net.parameters():
            if weight.dim() == 4:
                weight.data = weight.data.contiguous(memory_format=torch.channels_last)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """What the module gives."""
        outputs: torch.Tensor = self.net(inputs)
        return outputs

    @property
    def rules(self) -> str:
        """The code matters as well as its weights, and is known by what it does."""
        return f"{self.choice.name} {super().rules} {self._probed}"

    @cached_property
    def _probed(self) -> str:
        """sha256 (hex) of the features, as they are kept, of an image that is always the same."""
        side = min(self.size, PROBE)
        # No row or column repeats: every brightness, and edges everywhere.
        pixels = (torch.arange(side * side * COLOURS) ** 2 * 7919 // 64 % 256).to(torch.uint8)
        image = pixels.view(1, side, side, COLOURS)
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # as for encoding: more would change the bits
        try:
            features = self.encode(image)
            beside = self.encode(torch.cat([image, image // 4, 255 - image]))[:1]
        finally:
            torch.set_num_threads(threads)
        self._check_alone(features, beside)
        return hashlib.sha256(features.to(torch.float16).numpy().tobytes()).hexdigest()

    def _check_alone(self, features: torch.Tensor, beside: torch.Tensor) -> None:
        """Refuse a module that mixes images: which ones go together would decide about vectors.

        Batch norm without running statistics does that, in evaluation too.
        """
        if features.shape != beside.shape or not (features.isfinite() & beside.isfinite()).all():
            return  # refused for another reason, when samples are encoded
        if (features - beside).abs().max() > MOST_APART * features.abs().max():
            raise UserError(
                f"data.encoder={self.choice.name}: gives an image other features when other images "
                "are beside it; every image has to be looked at by itself (batch norm needs "
                "running statistics)"
            )


def make(choice: EncoderChoice, side: int | None) -> Encoder:
    """The encoder that the factory gives, which is called without arguments.

    Attributes `size`, `mean` and `std` of the module say how it wants its images; without them
    pixels are in [0,1].
    """
    factory = import_for("data.encoder", choice.name, "package.module:factory")
    try:
        net = factory()
    except Exception as problem:
        raise UserError(
            f"data.encoder={choice.name}: the factory failed when called without arguments: "
            f"{in_one_line(problem)}"
        ) from problem
    if not isinstance(net, nn.Module):
        raise UserError(
            f"data.encoder={choice.name}: the factory gave a {type(net).__name__}, not a "
            "torch.nn.Module"
        )
    size = getattr(net, "size", None)
    full = completed(
        choice,
        sha256=tensors_hash(net.state_dict()),
        size=size if isinstance(size, int) else usual_size(side),
        mean=_numbers(net, "mean", 0.0),
        std=_numbers(net, "std", 1.0),
    )
    return ModuleEncoder(full, net)


def _numbers(net: nn.Module, key: str, usual: float) -> tuple[float, ...]:
    given: Any = getattr(net, key, None)
    if isinstance(given, Sequence) and all(isinstance(each, int | float) for each in given):
        return tuple(float(each) for each in given)
    return (usual,)

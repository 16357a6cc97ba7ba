"""What every net of this package has in common."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from feddiv.core.errors import UserError
from feddiv.nets.net_options import ModelOptions


class Net(nn.Module):
    """A classifier in two parts: `features(x)` is [B, d], and `forward(x)` is `head(features(x))`.

    The head is registered as `fc`, the name that published ResNet weights use.
    """

    fc: nn.Linear

    def features(self, x: Tensor) -> Tensor:
        """The input of the head, [B, d]."""
        raise NotImplementedError

    def stacked(self) -> list[nn.Linear] | None:
        """All layers, where the net is linear layers with ReLU between them and nothing else."""
        return None

    @property
    def head(self) -> nn.Linear:
        """The last layer: features [B, d] to logits [B, classes]."""
        return self.fc

    def forward(self, x: Tensor) -> Tensor:
        """Logits, [B, classes]."""
        logits: Tensor = self.head(self.features(x))
        return logits


Build = Callable[[tuple[int, ...], int], nn.Module]


@dataclass(frozen=True)
class NetBuild:
    """How a net is built from options, an input shape (without the batch) and a number of classes.

    `takes` names the options that are for some nets only and that this one looks at.
    """

    build: Callable[[ModelOptions, tuple[int, ...], int], nn.Module]
    takes: frozenset[str] = frozenset()


def image_channels(name: str, input_shape: tuple[int, ...], smallest_side: int = 1) -> int:
    """The channels of an image shape (channels, height, width), or an error in the net's name."""
    if len(input_shape) != 3:
        raise UserError(
            f"model.name={name!r} needs images (channels, height, width), but a sample here has "
            f"shape {input_shape}; 'mlp' takes any shape"
        )
    channels, height, width = input_shape
    if min(height, width) < smallest_side:
        raise UserError(
            f"model.name={name!r} needs images of at least {smallest_side}x{smallest_side} pixels, "
            f"but they are {height}x{width} here; 'mlp' takes any shape"
        )
    return channels


def use_channels_last(net: nn.Module) -> None:
    """Store 4-D weights as channels_last: faster on CPU, and the same bits on every worker."""
    for weight in net.parameters():
        if weight.dim() == 4:
            weight.data = weight.data.contiguous(memory_format=torch.channels_last)

"""A pull towards the received weights, so that local training does not drift away."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from feddiv.core.randomness import Streams
from feddiv.learning.train import Batch, MixUp, Selection
from feddiv.nets.stack import Stack, add_gradient

LEAST = 1e-30  # a squared distance below it is none


class Anchor:
    """The trainable parameters as they were received."""

    def __init__(self, net: torch.nn.Module) -> None:
        self.start = [parameter.detach().clone() for parameter in net.parameters()]

    def squared_distance(self, net: torch.nn.Module) -> torch.Tensor:
        """The squared L2 norm of how far the net's parameters have moved; buffers do not count."""
        moved = zip(net.parameters(), self.start, strict=True)
        return torch.stack([(now - before).square().sum() for now, before in moved]).sum()

    def distance(self, net: torch.nn.Module) -> torch.Tensor:
        """The L2 norm; its gradient is taken as 0 where nothing has moved yet."""
        return self.squared_distance(net).clamp_min(LEAST).sqrt()

    def pull(self, net: Stack, weight: float, *, squared: bool) -> None:
        """Add the gradients of `weight` times either, by hand and to the bit what autograd adds."""
        parameters = net.parameters()
        moved = [now.detach() - before for now, before in zip(parameters, self.start, strict=True)]
        slope = torch.tensor(weight)
        if not squared:
            total = torch.stack([each.square().sum() for each in moved]).sum()
            slope = torch.where(total >= LEAST, slope / (2 * total.clamp_min(LEAST).sqrt()), 0.0)
        for parameter, each in zip(parameters, moved, strict=True):
            add_gradient(parameter, each.mul_(2).mul_(slope))


class PulledMixUp:
    """FedCorr's objective: MixUp plus `pull` times the distance from the received net.

    An epoch's first batch goes without the pull, as in the released code, where a distance of 0
    had no gradient.
    """

    def __init__(
        self,
        net: torch.nn.Module,
        labels: npt.NDArray[np.int64],
        pull: float,
        rng: Streams,
        *,
        squared: bool,
    ) -> None:
        self.rows, self.labels = torch.arange(len(labels)), torch.from_numpy(labels)
        self.mixup, self.pull, self.squared = MixUp(rng), pull, squared
        self.anchor = Anchor(net) if pull else None
        self.opening = True

    def select(self, epoch: int) -> Selection:
        """Every sample with its label as it is now; called before an epoch's first batch."""
        self.opening = True
        return self.rows, self.labels

    def __call__(self, net: torch.nn.Module, batch: Batch) -> torch.Tensor:
        """The loss of one batch."""
        loss, opening = self.mixup(net, batch), self.opening
        self.opening = False
        if opening or self.anchor is None:
            return loss
        measure = self.anchor.squared_distance if self.squared else self.anchor.distance
        return loss + self.pull * measure(net)

    def add_gradients(self, stack: Stack, batch: Batch) -> None:
        """Add its gradients."""
        self.mixup.add_gradients(stack, batch)
        if self.anchor is not None and not self.opening:
            self.anchor.pull(stack, self.pull, squared=self.squared)
        self.opening = False

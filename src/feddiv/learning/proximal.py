"""A pull towards the received weights, so that local training does not drift away."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from feddiv.core.randomness import Streams
from feddiv.learning.train import Batch, MixUp, Selection


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
        return self.squared_distance(net).clamp_min(1e-30).sqrt()


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

"""A pull towards the received weights, so that local training does not drift away."""

import torch
from torch import Tensor, nn


class Anchor:
    """The trainable parameters as they were received."""

    def __init__(self, net: nn.Module) -> None:
        self.start = [parameter.detach().clone() for parameter in net.parameters()]

    def squared_distance(self, net: nn.Module) -> Tensor:
        """The squared L2 norm of how far the net's parameters have moved; buffers do not count."""
        moved = zip(net.parameters(), self.start, strict=True)
        return torch.stack([(now - before).square().sum() for now, before in moved]).sum()

    def distance(self, net: nn.Module) -> Tensor:
        """The L2 norm; it has no gradient where nothing has moved yet."""
        return self.squared_distance(net).sqrt()

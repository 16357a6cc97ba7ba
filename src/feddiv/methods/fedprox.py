"""FedProx: FedAvg with a pull back to the received weights (Li et al., MLSys 2020).

Symbols of the paper: theta = the net while it trains, theta^(t) = the weights as received,
mu = `mu`.
"""

from __future__ import annotations

import torch
from pydantic import Field

from feddiv.core.randomness import Streams
from feddiv.learning.proximal import Anchor
from feddiv.learning.train import Batch, cross_entropy, everything, train
from feddiv.methods.averaging import Averaging
from feddiv.methods.common import trained_reply
from feddiv.methods.contract import Client, Message, MethodOptions, Visit
from feddiv.nets.stack import Stack


class FedProxOptions(MethodOptions):
    """How strong the pull is.

    FedCorr's option text names 1, which is strong: each step takes back train.lr of the way gone.
    Others take 0.1 or 0.01; 0 is refused, as that is FedAvg.
    """

    name: str = "fedprox"
    mu: float = Field(1.0, gt=0)  # weight of half the squared distance to the received weights


class FedProx(Averaging[None]):
    """Everyone trains on the labels they were given, and not too far away."""

    name = "fedprox"
    summary = "FedAvg whose clients are pulled back to the weights they received"
    paper = "Li et al., MLSys 2020"
    Options = FedProxOptions
    options: FedProxOptions

    def visit(self, client: Client, memory: None, received: Message, rng: Streams) -> Visit[None]:
        """E epochs of SGD from the received weights, which stay the anchor all the while."""
        net = client.net(received.weights["net"])
        objective = Proximal(net, self.options.mu)
        train(net, client.samples, everything(client.samples), objective, self.training, rng)
        return Visit(trained_reply(client, net, received), None)


class Proximal:
    """Mean cross-entropy + (mu / 2) ||theta - theta^(t)||^2, with theta^(t) the net as it is now.

    The norm is over what is trained: batch-norm statistics follow the data and are not pulled.
    """

    def __init__(self, net: torch.nn.Module, mu: float) -> None:
        self.anchor = Anchor(net)
        self.mu = mu

    def __call__(self, net: torch.nn.Module, batch: Batch) -> torch.Tensor:
        """The objective h_k of the paper on one batch."""
        return cross_entropy(net, batch) + self.mu / 2 * self.anchor.squared_distance(net)

    def add_gradients(self, stack: Stack, batch: Batch) -> None:
        """Add its gradients."""
        cross_entropy.add_gradients(stack, batch)
        self.anchor.pull(stack, self.mu / 2, squared=True)

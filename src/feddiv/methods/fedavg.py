"""FedAvg: average what clients learn from their given labels (McMahan et al., AISTATS 2017)."""

from collections.abc import Mapping
from typing import ClassVar

from feddiv.core.randomness import Streams
from feddiv.learning.train import MixUp, cross_entropy, everything, train
from feddiv.methods.averaging import Averaging
from feddiv.methods.common import trained_reply
from feddiv.methods.contract import Client, Message, MethodOptions, Variant, Visit


class FedAvgOptions(MethodOptions):
    """Plain federated averaging, with MixUp if wanted."""

    name: str = "fedavg"
    mixup: bool = False  # train on mixed pairs of samples


class FedAvg(Averaging[None]):
    """Everyone trains on the labels they were given."""

    name = "fedavg"
    summary = "the average of what clients learn from their given labels"
    paper = "McMahan et al., AISTATS 2017"
    Options = FedAvgOptions
    options: FedAvgOptions
    variants: ClassVar[Mapping[str, Variant]] = {
        "default": Variant("without MixUp"),
        "mixup": Variant("FedAvg with MixUp, as FedDiv and FedCorr have it", {"mixup": True}),
    }

    def visit(self, client: Client, memory: None, received: Message, rng: Streams) -> Visit[None]:
        """E epochs of SGD from the received weights."""
        net = client.net(received.weights["net"])
        objective = MixUp(rng) if self.options.mixup else cross_entropy
        train(net, client.samples, everything(client.samples), objective, self.training, rng)
        return Visit(trained_reply(client, net, received), None)

"""FedAvg: average what clients learn from their given labels (McMahan et al., AISTATS 2017)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from feddiv.learning.average import RunningMean, StateDict, Weights
from feddiv.learning.train import MixUp, TrainOptions, cross_entropy, everything, train
from feddiv.methods.contract import (
    Budget,
    Client,
    Declared,
    Exchange,
    Facts,
    Message,
    Method,
    MethodOptions,
    Moment,
    Replies,
    Visit,
    choose_clients,
)
from feddiv.methods.parts import DIVERGENCE, trained_reply
from feddiv.randomness import Streams


class FedAvgOptions(MethodOptions):
    """Plain federated averaging, with MixUp if wanted."""

    name: Literal["fedavg"] = "fedavg"
    mixup: bool = False


@dataclass(frozen=True)
class FedAvgState:
    """The global model and who there is."""

    net: StateDict
    sizes: dict[int, int]


class FedAvg(Method[FedAvgState, None]):
    """Everyone trains on the labels they were given."""

    name = "fedavg"
    summary = "the average of what clients learn from their given labels"
    paper = "McMahan et al., AISTATS 2017"
    Options = FedAvgOptions
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {"default": {}, "mixup": {"mixup": True}}

    def __init__(self, options: FedAvgOptions, training: TrainOptions, budget: Budget) -> None:
        super().__init__(options, training, budget)
        self.options = options

    def begin(
        self, make_model: Callable[[str], StateDict], facts: Facts, rng: Streams
    ) -> FedAvgState:
        """A fresh model."""
        return FedAvgState(make_model("net"), facts.sizes)

    def plan(self, state: FedAvgState, moment: Moment, rng: Streams) -> Exchange | None:
        """One exchange a round with a fraction of the clients."""
        if moment.exchange:
            return None
        chosen = choose_clients(state.sizes, self.budget.visits(len(state.sizes)), rng)
        return Exchange(chosen, Message("train", {"net": state.net}))

    def visit(self, client: Client, memory: None, received: Message, rng: Streams) -> Visit[None]:
        """E epochs of SGD from the received weights."""
        net = client.net(received.weights["net"])
        objective = MixUp(rng) if self.options.mixup else cross_entropy
        train(net, client.samples, everything(client.samples), objective, self.training, rng)
        return Visit(trained_reply(client, net, received), None)

    def merge(self, state: FedAvgState, exchange: Exchange, replies: Replies) -> FedAvgState:
        """The n_k-weighted mean."""
        total = RunningMean()
        for reply in replies:
            total.add(reply.weights, reply.samples)
        mean = total.mean()
        return replace(state, net=mean["net"]) if mean else state

    def weights(self, state: FedAvgState) -> Weights:
        """The one global model."""
        return {"net": state.net}

    def declares(self, kind: str, facts: Facts) -> Mapping[str, Declared]:
        """Weights, n_k and the divergence."""
        return DIVERGENCE

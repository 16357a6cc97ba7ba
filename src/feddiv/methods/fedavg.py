"""FedAvg: average what clients learn from their given labels (McMahan et al., AISTATS 2017).

Methods that warm up and mix samples are ahead of it by that alone: `fedavg-warm` has both too.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Literal

from feddiv.core.randomness import Streams
from feddiv.learning.average import RunningMean
from feddiv.learning.train import MixUp, cross_entropy, everything, train
from feddiv.methods.averaging import Averaging, AveragingState
from feddiv.methods.common import DIVERGENCE, trained_reply
from feddiv.methods.contract import (
    Client,
    Exchange,
    Facts,
    Kind,
    Message,
    MethodOptions,
    Moment,
    Replies,
    Stage,
    Variant,
    Visit,
)
from feddiv.methods.hand_over import (
    HandOverOptions,
    hand_over_order,
    hand_over_stage,
    hand_over_trail,
)


class FedAvgWarmup(HandOverOptions):
    """Whether the model is warmed up first, for warmup.iterations, as FedDiv's is."""

    mode: Literal["none", "hand_over"] = "none"  # hand_over: with MixUp, one client after the other


class FedAvgOptions(MethodOptions):
    """Plain federated averaging, with MixUp and a warm-up if wanted."""

    name: str = "fedavg"
    mixup: bool = False  # train on mixed pairs of samples
    warmup: FedAvgWarmup = FedAvgWarmup()


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
        "warm": Variant(
            "FedAvg with FedDiv's hand-over warm-up and MixUp",
            {"mixup": True, "warmup.mode": "hand_over"},
        ),
    }

    def stages(self) -> tuple[Stage, ...]:
        """Averaged rounds, after a hand-over if one is wanted."""
        if self.options.warmup.mode == "none":
            return super().stages()
        rounds = self.budget.rounds - self.budget.warmup_rounds
        return hand_over_stage(self.budget), Stage("train", rounds)

    def plan(self, state: AveragingState, moment: Moment, rng: Streams) -> Exchange | None:
        """A round with a fraction of the clients; in warm-up one after the other."""
        if moment.stage != "warmup":
            return super().plan(state, moment, rng)
        order = hand_over_order(state.sizes, rng.at(exchange=0))  # one draw for a whole iteration
        if moment.exchange == len(order):
            return None
        return Exchange((order[moment.exchange],), Message("warmup", {"net": state.net}))

    def merge(self, state: AveragingState, exchange: Exchange, replies: Replies) -> AveragingState:
        """The mean of a round; in warm-up the next client's model, and the trail behind it."""
        if exchange.message.kind != "warmup":
            return super().merge(state, exchange, replies)
        models = RunningMean()
        for reply in replies:
            if reply.weights is not None:
                models.add(reply.weights, reply.samples)
        mean = models.mean()
        net, clients = mean["net"] if mean else None, len(state.sizes)
        trail = hand_over_trail(self.options.warmup, state.trail, net, models.total, clients)
        return replace(state, net=net or state.net, trail=trail)

    def visit(self, client: Client, memory: None, received: Message, rng: Streams) -> Visit[None]:
        """E epochs of SGD from the received weights."""
        net = client.net(received.weights["net"])
        objective = MixUp(rng) if self.options.mixup else cross_entropy
        if received.kind == "warmup":
            objective = MixUp(rng, eta=float(self.options.warmup.regulariser))
        train(net, client.samples, everything(client.samples), objective, self.training, rng)
        return Visit(trained_reply(client, net, received), None)

    def kinds(self, facts: Facts) -> Mapping[str, Kind]:
        """The model and how far it moved."""
        known = super().kinds(facts)
        warm = self.options.warmup.mode == "hand_over"
        return {**known, "warmup": Kind(DIVERGENCE)} if warm else known

"""What methods share that train at clients and average at the server, as FedAvg does."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeVar

from feddiv.core.arrays import StateDict, Weights
from feddiv.core.randomness import Streams
from feddiv.learning.average import RunningMean, Trail
from feddiv.methods.common import DIVERGENCE
from feddiv.methods.contract import (
    Exchange,
    Facts,
    Kind,
    Message,
    Method,
    Moment,
    Payload,
    Replies,
    Reply,
)

M = TypeVar("M")


@dataclass(frozen=True)
class AveragingState:
    """The global model and who there is."""

    net: StateDict
    sizes: dict[int, int]
    trail: Trail = field(default_factory=Trail)  # of a method that warms up by hand-over

    @property
    def model(self) -> StateDict:
        """The model to use: where there is a trail of hand-overs, their mean."""
        return self.net if self.trail.mean is None else self.trail.mean


class Averaging(Method[AveragingState, M]):
    """One exchange a round with a fraction of the clients, then the mean, weighted by `amount`."""

    payload_names: ClassVar[tuple[str, ...]] = ()  # of what `payload` gives

    def begin(
        self, make_model: Callable[[str], StateDict], facts: Facts, rng: Streams
    ) -> AveragingState:
        """A fresh model."""
        return AveragingState(make_model("net"), facts.sizes)

    def plan(self, state: AveragingState, moment: Moment, rng: Streams) -> Exchange | None:
        """One exchange a round with a fraction of the clients."""
        if moment.exchange:
            return None
        chosen = self.choose(state.sizes, rng)
        return Exchange(chosen, Message("train", {"net": state.model}, self.payload(moment)))

    def payload(self, moment: Moment) -> Payload:
        """What clients receive besides the model."""
        return {}

    def merge(self, state: AveragingState, exchange: Exchange, replies: Replies) -> AveragingState:
        """The weighted mean of the models that came."""
        mean = mean_of(replies, self.amount)
        return replace(state, net=mean["net"], trail=Trail()) if mean else state

    def amount(self, reply: Reply) -> float:
        """How much a reply counts in the mean: by default its n_k."""
        return reply.samples

    def weights(self, state: AveragingState) -> Weights:
        """The one global model."""
        return {"net": state.model}

    def kinds(self, facts: Facts) -> Mapping[str, Kind]:
        """The model and how far it moved."""
        return {"train": Kind(DIVERGENCE, message=self.payload_names)}


def mean_of(
    replies: Replies, amount: Callable[[Reply], float] = lambda reply: reply.samples
) -> Weights | None:
    """The mean of the models that came, by default weighted by n_k; None where none did."""
    total = RunningMean()
    for reply in replies:
        if reply.weights is not None:
            total.add(reply.weights, amount(reply))
    return total.mean()

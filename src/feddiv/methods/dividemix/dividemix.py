"""DivideMix in a federated loop: two nets divide each other's labels (Li et al., ICLR 2020).

Symbols of the paper: theta^(1) and theta^(2) = the nets `a` and `b`, w = `trust`, tau =
`clean_above`, X and U = `labelled` and `unlabelled`, lambda_u = `unlabelled_weight`. The paper
trains in one place; here both nets are averaged by n_k, and warm-up and ramp count rounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from pydantic import Field

from feddiv.core.arrays import Array, StateDict, Weights
from feddiv.core.randomness import Streams
from feddiv.learning.predict import predict_global, predict_local
from feddiv.learning.small_loss import trust
from feddiv.learning.train import cross_entropy, everything, sgd, train
from feddiv.methods.averaging import mean_of
from feddiv.methods.common import DIVERGENCE, flagged_diary, trained_reply, warmed_up
from feddiv.methods.contract import (
    Assessment,
    Client,
    Exchange,
    Facts,
    Kind,
    Message,
    Method,
    MethodOptions,
    Moment,
    Nets,
    Payload,
    Replies,
    Stage,
    Visit,
)
from feddiv.methods.dividemix.mixmatch import CoDivision, MixMatch, MixMatchOptions

PAIR = ("a", "b")


class DivideMixOptions(MethodOptions):
    """DivideMix's own options: the paper's for CIFAR-10, but warm-up and ramp count rounds."""

    name: str = "dividemix"
    warmup_share: float = Field(0.1, ge=0, lt=1)  # of the rounds, on all given labels
    clean_above: float = Field(0.5, ge=0, lt=1)  # tau: labels that are trusted more are kept
    unlabelled_weight: float = Field(25.0, ge=0)  # lambda_u at the end of its ramp
    ramp_rounds: int = Field(16, ge=1, le=1_000_000)  # in which unlabelled_weight rises from 0
    targets: MixMatchOptions = MixMatchOptions()


@dataclass(frozen=True)
class DivideMixState:
    """The two global models and who there is."""

    nets: Weights
    sizes: dict[int, int]


class DivideMix(Method[DivideMixState, None]):
    """Each net trains on the division that the other one made, so that errors are not confirmed."""

    name = "dividemix"
    summary = "two nets that divide each other's labels and learn the rest semi-supervised"
    paper = "Li et al., ICLR 2020"
    Options = DivideMixOptions
    options: DivideMixOptions
    judges_unseen = True

    # The server

    def stages(self) -> tuple[Stage, ...]:
        """Plain rounds on all given labels, then divided ones; at least one of these."""
        return warmed_up(self.budget, self.options.warmup_share)

    def begin(
        self, make_model: Callable[[str], StateDict], facts: Facts, rng: Streams
    ) -> DivideMixState:
        """Two fresh models, drawn independently: they must disagree to be of use to each other."""
        return DivideMixState({name: make_model(name) for name in PAIR}, facts.sizes)

    def plan(self, state: DivideMixState, moment: Moment, rng: Streams) -> Exchange | None:
        """One exchange a round: both models, and the weight of the unlabelled samples."""
        if moment.exchange:
            return None
        chosen = self.choose(state.sizes, rng)
        payload: Payload = {}
        if moment.stage == "train":
            ramp = min(moment.turn / self.options.ramp_rounds, 1.0)
            payload["unlabelled_weight"] = np.array(self.options.unlabelled_weight * ramp)
        return Exchange(chosen, Message(moment.stage, state.nets, payload))

    def merge(self, state: DivideMixState, exchange: Exchange, replies: Replies) -> DivideMixState:
        """The n_k-weighted mean of either model."""
        mean = mean_of(replies)
        return replace(state, nets=mean) if mean else state

    # The client

    def visit(self, client: Client, memory: None, received: Message, rng: Streams) -> Visit[None]:
        """E epochs: co-divide with both nets, then train each on the other one's division."""
        nets = {name: client.net(received.weights[name], name) for name in PAIR}
        samples, given = client.samples, client.samples.given.numpy()
        if received.kind == "warmup":
            for name, net in nets.items():
                part = rng.within(name)
                train(net, samples, everything(samples), cross_entropy, self.training, part)
            return Visit(trained_reply(client, nets, received), None)

        optimisers = {name: sgd(net, self.training) for name, net in nets.items()}
        epoch_only = self.training.model_copy(update={"epochs": 1})
        first: list[Array] = []
        for epoch in range(self.training.epochs):
            trusts = {
                name: samples.believed(trust(predict_local(net, samples), given))
                for name, net in nets.items()
            }
            first = first or list(trusts.values())
            for own, other in (PAIR, PAIR[::-1]):
                part = rng.within(f"epoch {epoch}").within(own)
                division = divided(trusts[other], self.options.clean_above)
                objective = MixMatch(
                    self.options.targets,
                    samples,
                    division,
                    nets[other],
                    part,
                    batch=self.training.batch,
                    unlabelled_weight=float(received.payload["unlabelled_weight"]),
                )
                net, optimiser = nets[own], optimisers[own]
                train(net, samples, objective.select, objective, epoch_only, part, optimiser)
        flagged = np.mean(first, axis=0) <= self.options.clean_above
        diary = flagged_diary(samples, given, flagged)
        return Visit(trained_reply(client, nets, received), None, diary)

    # What everybody else asks of a method

    def weights(self, state: DivideMixState) -> Weights:
        """Both global models."""
        return state.nets

    def kinds(self, facts: Facts) -> Mapping[str, Kind]:
        """Both models and how far they moved."""
        return {
            "warmup": Kind(DIVERGENCE, PAIR),
            "train": Kind(DIVERGENCE, PAIR, message=("unlabelled_weight",)),
        }

    def predict(self, nets: Nets, inputs: torch.Tensor) -> torch.Tensor:
        """The two nets' logits, added."""
        first, second = (nets[name] for name in PAIR)
        logits: torch.Tensor = first(inputs) + second(inputs)
        return logits

    def assess(self, client: Client, memory: None, received: Message) -> Assessment:
        """What both nets predict together, and their mean trust in the given labels."""
        given = client.samples.given.numpy()
        logits = [
            predict_global(client.net(received.weights[name], name), client.samples)
            for name in PAIR
        ]
        trusts = [trust(each, given) for each in logits]
        return Assessment.of(np.sum(logits, axis=0), np.mean(trusts, axis=0))


def divided(trusts: Array, clean_above: float) -> CoDivision:
    """Co-divide: labels that are trusted are kept, the others forgotten.

    Without two trusted labels there is nothing to learn from: the more trusted half is kept.
    """
    labelled = trusts > clean_above
    if labelled.sum() < 2:
        half = max(math.ceil(len(trusts) / 2), 2)
        labelled[np.argsort(-trusts, kind="stable")[:half]] = True
    rows, others = (torch.from_numpy(np.flatnonzero(members)) for members in (labelled, ~labelled))
    return CoDivision(rows, others, torch.from_numpy(trusts).float())

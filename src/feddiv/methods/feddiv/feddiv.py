"""FedDiv: collaborative noise filtering (Li et al., AAAI 2024).

Symbols of the paper: theta = `net`, W = `NoiseFilter`, D_k = a client's samples, n_k = its size,
delta-hat = `noise_level`, y-hat = `predicted`, y-tilde = `debiased_labels`, p-hat_k =
`memory.bias`, zeta = `relabel.confidence`, xi and m = `sampler.xi` and `sampler.momentum`,
eta = 1 where `regulariser` applies. p-bar, the model's mean prediction over all clients, is ours:
messages carry it as `bias`.

Steps of a round: 1 clients are chosen and sent model and filter; 2 they filter and relabel; 3 they
train on what the sampler keeps; 4 they fit the filter to their scores; 5 the server averages the
models; 6 it aggregates the filters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import torch

from feddiv.core.arrays import Array, Labels, StateDict, Weights
from feddiv.core.randomness import Streams
from feddiv.learning.average import RunningMean, ServerMomentum, Trail
from feddiv.learning.gaussian_mixture import Mixture
from feddiv.learning.predict import predict_array, predict_global
from feddiv.learning.train import MixUp, everything, train
from feddiv.methods.common import trained_reply
from feddiv.methods.contract import (
    Assessment,
    Client,
    Corrected,
    Diary,
    Exchange,
    Facts,
    Kind,
    Message,
    Method,
    Moment,
    Replies,
    Reply,
    Stage,
    Variant,
    Visit,
)
from feddiv.methods.feddiv.diary import visit_diary
from feddiv.methods.feddiv.division import divide
from feddiv.methods.feddiv.exchanges import downloads, kinds, openings, uploads
from feddiv.methods.feddiv.feddiv_options import VARIANTS, FedDivOptions
from feddiv.methods.feddiv.filter import NoiseFilter
from feddiv.methods.feddiv.filter_client import ClientFilter, FilterMemory
from feddiv.methods.feddiv.filter_server import Ledger
from feddiv.methods.feddiv.sampler import Reselection, debiased_labels, update_bias
from feddiv.methods.feddiv.starvation import pardons
from feddiv.methods.feddiv.sure_labels import must_train
from feddiv.methods.hand_over import hand_over_order, hand_over_stage, hand_over_trail

LEAST_TRUST = 1e-3  # samples: a round of clients without a trusted label still has a mean


@dataclass(frozen=True)
class FedDivState:
    """The server's state."""

    net: StateDict  # theta^(t)
    ledger: Ledger  # what clients sent about their scores
    mixture: Array | None  # W^(t): means, variances, weights
    sizes: dict[int, int]  # n_k
    iid: bool
    trail: Trail = field(default_factory=Trail)  # with warmup.result=average
    momentum: ServerMomentum = field(default_factory=ServerMomentum)  # with warmup.mode=average

    @property
    def model(self) -> StateDict:
        """The model to use: where there is a trail of hand-overs, their mean."""
        return self.net if self.trail.mean is None else self.trail.mean


@dataclass(frozen=True)
class FedDivMemory:
    """What a client keeps between visits; it never leaves the client."""

    bias: Array  # p-hat_k
    visits: int = 0  # training visits after warm-up
    filter: FilterMemory = field(default_factory=FilterMemory)
    labels: Labels | None = None  # corrected labels, with relabel.persist
    debiased: Labels | None = None  # y-tilde, with sampler.timing=visit


class FedDiv(Method[FedDivState, FedDivMemory]):
    """One noise filter, learnt by all clients; each trains on what it lets through."""

    name = "feddiv"
    summary = "a noise filter learnt by all clients, relabelling, a consistency sampler"
    paper = "Li et al., AAAI 2024"
    Options = FedDivOptions
    options: FedDivOptions
    variants: ClassVar[Mapping[str, Variant]] = VARIANTS
    judges_unseen = True

    # The server

    def stages(self) -> tuple[Stage, ...]:
        """Warm-up on all given labels, then filtered rounds; or one turn for the filter alone."""
        budget = self.budget
        if self.options.only_filter:
            return (Stage("filter", 1, budget.rounds),)
        if self.options.warmup.mode == "hand_over":
            warmup = hand_over_stage(budget)
        else:
            warmup = Stage("warmup", budget.warmup_rounds)
        return (warmup, Stage("train", budget.rounds - budget.warmup_rounds))

    @property
    def takes_centres(self) -> bool:
        """Of mixtures, where clients send them."""
        options = self.options.filter
        return options.aggregate == "mean" and options.scope == "federated"

    @property
    def trains(self) -> bool:
        """Not where only the filter is wanted."""
        return not self.options.only_filter

    @property
    def needs_truth(self) -> bool:
        """The perfect filter does."""
        return self.options.filter.scope == "perfect"

    def begin(
        self, make_model: Callable[[str], StateDict], facts: Facts, rng: Streams
    ) -> FedDivState:
        """A fresh model and no filter."""
        ledger = Ledger.empty(max(facts.sizes) + 1, len(facts.classes))
        return FedDivState(make_model("net"), ledger, None, facts.sizes, facts.iid)

    def joined(self, state: FedDivState, sizes: Mapping[int, int]) -> FedDivState:
        """Newcomers get a row of the ledger; the filter is there for them already."""
        ledger = state.ledger.grown(max(sizes) + 1)
        return super().joined(replace(state, ledger=ledger), sizes)

    def plan(self, state: FedDivState, moment: Moment, rng: Streams) -> Exchange | None:
        """Step 1: who takes part, and what they receive."""
        everyone = tuple(sorted(state.sizes))
        rng = rng.at(exchange=0)  # one draw for all exchanges of a turn
        chosen = self.choose(everyone, rng)
        exchanges: list[tuple[str, tuple[int, ...]]]
        if moment.stage == "filter":
            exchanges = [(kind, everyone) for kind in openings(self.options)]
        elif moment.stage == "train":
            first = openings(self.options) if moment.turn == 0 else ()
            exchanges = [*((kind, everyone) for kind in first), ("train", chosen)]
        elif self.options.warmup.mode == "hand_over":
            exchanges = [("warmup", (client,)) for client in hand_over_order(everyone, rng)]
        else:
            exchanges = [("warmup", chosen)]
        if moment.exchange == len(exchanges):
            return None
        kind, clients = exchanges[moment.exchange]
        return Exchange(clients, self._message(kind, state))

    def _message(self, kind: str, state: FedDivState) -> Message:
        ledger, by_trust = state.ledger, self._weighs_by_trust(state.iid)
        values: dict[str, Array | None] = {
            "eta": np.array(float(self._regularised(kind, state.iid))),
            "bias": ledger.bias,
            "mixture": state.mixture,
            "temperature": None if state.mixture is None else np.array(ledger.temperature),
            "by_trust": np.array(1.0),
            "pardons": pardons(ledger.tally, self.options.filter.starved_below),
            "must_train": must_train(ledger.tally, self.options.filter.enough),
        }
        names = downloads(self.options, kind, by_trust=by_trust)
        payload = {name: value for name in names if (value := values[name]) is not None}
        return Message(kind, {"net": state.net if kind == "warmup" else state.model}, payload)

    def _regularised(self, kind: str, iid: bool) -> bool:
        rule = self.options.regulariser
        wanted = rule == "always" or (rule == "non_iid" and not iid)
        return wanted and (kind != "warmup" or self.options.warmup.regulariser)

    def _weighs_by_trust(self, iid: bool) -> bool:
        rule = self.options.weigh_by_trust
        return rule == "always" or (rule == "iid" and iid)

    def merge(self, state: FedDivState, exchange: Exchange, replies: Replies) -> FedDivState:
        """Steps 5 and 6: average the models, then aggregate the filters."""
        models, ledger = RunningMean(), state.ledger.opened(self.options.filter)
        for reply in replies:
            if reply.weights is not None:
                trusted = float(reply.payload.get("trusted", reply.samples))
                models.add(reply.weights, max(min(trusted, reply.samples), LEAST_TRUST))
            ledger.add(reply.client, reply.samples, reply.payload)
        mean = models.mean()
        net = mean["net"] if mean else None
        if exchange.message.kind == "warmup":
            return self._warmed(state, net, models.total)
        if net is not None:
            state = replace(state, net=net, trail=Trail(), momentum=ServerMomentum())
        before = None if state.mixture is None else Mixture.unpacked(state.mixture)
        fitted = ledger.fitted(
            NoiseFilter(self.options.filter, len(ledger.softmax), before, self.centre)
        )
        mixture = None if fitted.mixture is None else fitted.mixture.packed()
        return replace(state, ledger=ledger, mixture=mixture)

    def _warmed(self, state: FedDivState, net: StateDict | None, samples: float) -> FedDivState:
        """The state after an exchange of warm-up that made this of the model, if anything."""
        warmup, trail, momentum = self.options.warmup, state.trail, state.momentum
        if warmup.mode == "hand_over":
            trail = hand_over_trail(warmup, trail, net, samples, len(state.sizes))
        elif net is not None:
            net, momentum = momentum.stepped(state.net, net, warmup.momentum)
        return replace(state, net=net or state.net, trail=trail, momentum=momentum)

    # The client

    def visit(
        self, client: Client, memory: FedDivMemory | None, received: Message, rng: Streams
    ) -> Visit[FedDivMemory]:
        """What a client does with a message."""
        memory = memory or _blank(client)
        net = client.net(received.weights["net"])
        if received.kind == "warmup":
            select = everything(client.samples)
            train(net, client.samples, select, self._objective(received, rng), self.training, rng)
            return Visit(trained_reply(client, net, received), memory)
        if received.kind == "train":
            return self._train(client, net, memory, received, rng)
        noise_filter, labels = self._filter(client, memory, received), _labels(client, memory)
        logits = predict_global(net, client.samples)
        if received.kind == "filter":
            noise_filter.keep(noise_filter.scores(logits, labels))
        payload = noise_filter.upload(self._uploads(received), logits=logits, labels=labels)
        reply = Reply(client.id, len(client), payload=payload)
        return Visit(reply, replace(memory, filter=noise_filter.memory))

    def _train(
        self,
        client: Client,
        net: torch.nn.Module,
        memory: FedDivMemory,
        received: Message,
        rng: Streams,
    ) -> Visit[FedDivMemory]:
        """Steps 2 to 4: filter and relabel, train on what the sampler keeps, fit the filter."""
        options, samples, labels = self.options, client.samples, _labels(client, memory)
        noise_filter = self._filter(client, memory, received)

        # Step 2: split with the federated filter, relabel what the global model is sure of.
        logits = predict_global(net, samples)
        scores = noise_filter.scores(logits, labels)
        sharpened = noise_filter.sharpened(logits, labels)
        p_clean = samples.believed(noise_filter.p_clean(scores, labels, _truth(client), sharpened))
        trusted = None if samples.trusted is None else samples.trusted.numpy()
        division = divide(
            noise_filter.trains(p_clean, labels, trusted),
            logits,
            labels,
            pardoned=noise_filter.pardoned(scores, labels),
            trusted=trusted,
            clean_client_below=options.filter.clean_client_below,
            relabelling=options.relabel,
        )

        # Step 3: local training on D-hat_k, reselected before every epoch.
        reselection = Reselection(
            options.sampler,
            division,
            logits,
            memory.bias,
            visits=memory.visits,
            relabelled_train=division.noise_level > options.relabel.min_noise,
            stale=memory.debiased,
            trusted=samples.trusted,
            local_logits=lambda rows: predict_array(net, samples, rows),
        )
        if len(reselection) > options.train.min_batches * self.training.batch:
            train(net, samples, reselection, self._objective(received, rng), self.training, rng)
        if options.relabel.persist:
            corrected = division.relabelled & reselection.consistent
            memory = replace(memory, labels=np.where(corrected, division.labels, labels))

        # Step 4: one pass of theta_k gives p-hat_k and, where wanted, the scores to fit.
        to_fit = scores
        if options.sampler.enabled or options.filter.fits_local_scores:
            after = np.nan_to_num(predict_array(net, samples))  # exploded weights will be refused
            bias = update_bias(memory.bias, after, options.sampler)
            debiased = debiased_labels(after, bias, options.sampler.xi)
            memory = replace(memory, bias=bias, debiased=debiased)
            if options.filter.fits_local_scores:
                to_fit = noise_filter.scores(after, _labels(client, memory))
        noise_filter.keep(to_fit)
        names = self._uploads(received)
        payload = noise_filter.upload(
            names, logits=logits, labels=labels, scores=scores, p_clean=p_clean
        )
        if "trusted" in names:
            payload["trusted"] = np.array(division.trusted(p_clean))
        memory = replace(memory, visits=memory.visits + 1, filter=noise_filter.memory)
        diary = visit_diary(
            samples,
            labels,
            scores,
            p_clean,
            logits,
            division,
            reselection.kept,
            noise_filter.filter,
        )
        return Visit(trained_reply(client, net, received, payload), memory, diary)

    def _uploads(self, received: Message) -> tuple[str, ...]:
        return uploads(self.options, received.kind, by_trust="by_trust" in received.payload)

    def _objective(self, received: Message, rng: Streams) -> MixUp:
        eta = float(received.payload["eta"])
        return MixUp(rng, eta=eta, raw_forward=self.options.train.raw_forward)

    def _filter(self, client: Client, memory: FedDivMemory, received: Message) -> ClientFilter:
        return ClientFilter(self.options.filter, client.classes, memory.filter, received.payload)

    # What everybody else asks of a method

    def weights(self, state: FedDivState) -> Weights:
        """The one global model."""
        return {"net": state.model}

    def kinds(self, facts: Facts) -> Mapping[str, Kind]:
        """Models, and totals of scores and softmax outputs or six numbers: nothing per sample."""
        return kinds(self.options, facts, by_trust=self._weighs_by_trust(facts.iid))

    def assessment(self, state: FedDivState) -> Message:
        """The final model and filter."""
        return self._message("assess", state)

    def assess(self, client: Client, memory: FedDivMemory | None, received: Message) -> Assessment:
        """The filter's opinion of the labels as they were given, and as training has them now."""
        memory = memory or _blank(client)
        noise_filter = self._filter(client, memory, received)
        logits = predict_global(client.net(received.weights["net"]), client.samples)

        opinion = noise_filter.opinion(logits, client.samples.given.numpy(), _truth(client))
        if memory.labels is None:
            return opinion
        now = noise_filter.opinion(logits, memory.labels, _truth(client)).p_clean
        assert now is not None
        return replace(opinion, corrected=Corrected(memory.labels, now))

    def assess_held_out(
        self, client: Client, memory: FedDivMemory | None, received: Message
    ) -> Assessment:
        """The filter's opinion, once there is a filter: in warm-up there is none."""
        if memory is not None:  # it corrects no label of these
            memory = replace(memory, labels=None)
        opinion = super().assess_held_out(client, memory, received)
        learnt = self._filter(client, memory or _blank(client), received).learnt
        return opinion if learnt else replace(opinion, p_clean=None)

    def records(self, state: FedDivState) -> Diary:
        """W^(t+1), p-bar, and the classes that are starved."""
        mixture = None if state.mixture is None else state.mixture.tolist()
        limits = pardons(state.ledger.tally, self.options.filter.starved_below)
        starved = np.flatnonzero(np.isfinite(limits)).tolist()
        return {"mixture": mixture, "bias": state.ledger.bias.tolist(), "starved": starved}


def _blank(client: Client) -> FedDivMemory:
    """A client's memory before its first visit: p-hat_k is uniform."""
    return FedDivMemory(np.full(client.classes, 1 / client.classes))


def _labels(client: Client, memory: FedDivMemory) -> Labels:
    """The labels as they are now: given, or corrected for good at an earlier visit."""
    given = client.samples.given.numpy()
    return given if memory.labels is None else client.samples.kept(memory.labels)


def _truth(client: Client) -> Labels | None:
    return None if client.samples.truth is None else client.samples.truth.numpy()

"""FedCorr: find noisy clients, correct their labels, then train as usual (Xu et al., CVPR 2022).

Symbols of the paper: Lambda_k = the sum of `lids[k]`, mu_k = `noise_levels[k]`, beta = `pull`,
pi = `relabel_share`, theta_c = `confidence`, kappa = `clean_below`, T1, T2 and T3 = the turns of
the stages `preprocess`, `finetune` and `train`. Losses never leave a client: the server learns
one LID score per visit and mu_k.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from pydantic import Field

from feddiv.core.arrays import Array, Labels, Mask, StateDict, Weights
from feddiv.core.randomness import Streams
from feddiv.learning.average import RunningMean
from feddiv.learning.gaussian_mixture import larger_component
from feddiv.learning.predict import predict_global, predict_local
from feddiv.learning.proximal import PulledMixUp
from feddiv.learning.score import label_scores, log_softmax
from feddiv.learning.train import train
from feddiv.methods.common import DIVERGENCE, flagged_diary, share, trained_reply
from feddiv.methods.contract import (
    Assessment,
    Client,
    Declared,
    Diary,
    Exchange,
    Facts,
    Kind,
    Message,
    Method,
    MethodOptions,
    Moment,
    Payload,
    Replies,
    Reply,
    Stage,
    Visit,
)
from feddiv.methods.fedcorr.lid import CAP, FEWEST, intrinsic_dimensions

FAR_BELOW, FAR_ABOVE = 3.0, 1.5  # of the median: cumulative LIDs beyond count as if they were there


class FedCorrOptions(MethodOptions):
    """FedCorr's own options; the defaults are those of the released commands for CIFAR-10."""

    name: str = "fedcorr"
    # T2 / (T2 + T3); T1 is warmup.iterations.
    finetune_share: float = Field(500 / 950, ge=0, lt=1)
    neighbours: int = Field(20, ge=2, le=10_000)  # k of the LID
    pull: float = Field(5.0, ge=0)  # beta
    squared: bool = False  # the released code does not square the distance
    relabel_share: float = Field(0.5, ge=0, le=1)  # pi
    confidence: float = Field(0.5, ge=0, le=1)  # theta_c
    clean_below: float = Field(0.1, ge=0, le=1)  # kappa


@dataclass(frozen=True)
class FedCorrState:
    """The server's state."""

    net: StateDict  # theta
    sizes: dict[int, int]  # n_k
    lids: dict[int, tuple[float, ...]]  # what each client said, iteration by iteration
    noise_levels: dict[int, float]  # mu_k
    noisy: tuple[int, ...] = ()  # the noisy clients of the last iteration


@dataclass(frozen=True)
class FedCorrMemory:
    """What a client keeps between visits; it never leaves the client."""

    labels: Labels | None = None  # from the first correction on, and for good
    losses: Array | None = None  # of the last pre-processing visit


class FedCorr(Method[FedCorrState, FedCorrMemory]):
    """Three stages: who is noisy, learn from the clean, correct the noisy and learn from all."""

    name = "fedcorr"
    summary = "noisy clients found by their LID, their labels corrected for good in stages"
    paper = "Xu et al., CVPR 2022"
    Options = FedCorrOptions
    options: FedCorrOptions
    without_warmup = "FedAvg with MixUp"  # nobody would ever be found to be noisy

    # The server

    def stages(self) -> tuple[Stage, ...]:
        """T1 iterations over all clients, then T2 and T3 rounds out of what is left."""
        budget = self.budget
        left = budget.rounds - budget.warmup_rounds
        finetune = max(min(round(self.options.finetune_share * left), left - 1), 0)
        return (
            Stage("preprocess", budget.warmup_iterations, 1 / budget.fraction, hands_over=True),
            Stage("finetune", finetune),
            Stage("train", left - finetune),
        )

    def begin(
        self, make_model: Callable[[str], StateDict], facts: Facts, rng: Streams
    ) -> FedCorrState:
        """A fresh model; everybody counts as clean."""
        lids: dict[int, tuple[float, ...]] = dict.fromkeys(facts.sizes, ())
        return FedCorrState(make_model("net"), facts.sizes, lids, dict.fromkeys(facts.sizes, 0.0))

    def joined(self, state: FedCorrState, sizes: Mapping[int, int]) -> FedCorrState:
        """Newcomers count as clean, as everybody did at the start."""
        lids: dict[int, tuple[float, ...]] = dict.fromkeys(sizes, ())
        levels = dict.fromkeys(sizes, 0.0)
        return replace(
            super().joined(state, sizes),
            lids={**state.lids, **lids},
            noise_levels={**state.noise_levels, **levels},
        )

    def plan(self, state: FedCorrState, moment: Moment, rng: Streams) -> Exchange | None:
        """Who takes part in this stage."""
        everyone, weights = tuple(sorted(state.sizes)), {"net": state.net}
        rng = rng.at(exchange=0)  # one draw for all exchanges of a turn
        if moment.stage == "preprocess":
            order = rng.numpy("order").permutation(len(everyone))
            if moment.exchange < len(everyone):  # the model goes from client to client
                client = everyone[order[moment.exchange]]
                return Exchange((client,), self._to_preprocess(state, client))
            if moment.exchange == len(everyone):
                # To nobody, perhaps: the merge still has to learn that none is noisy.
                return Exchange(noisy_clients(state.lids), Message("correct", weights))
            return None
        count = self.budget.visits(len(everyone))
        if moment.stage == "finetune":
            fallback = math.ceil(self.budget.fraction * len(everyone) - 1e-9)
            pool = clean_pool(state.noise_levels, self.options.clean_below, fallback)
            turns = [("train", self.choose_some(pool, count, rng))]
        else:
            turns = [("train", self.choose_some(everyone, count, rng))]
            if moment.turn == 0 and state.noisy:  # what fine-tuning was for
                turns.insert(0, ("relabel", state.noisy))
        if moment.exchange == len(turns):
            return None
        kind, clients = turns[moment.exchange]
        return Exchange(clients, Message(kind, weights))

    def _to_preprocess(self, state: FedCorrState, client: int) -> Message:
        level: Payload = {"noise_level": np.array(state.noise_levels[client])}
        return Message("preprocess", {"net": state.net}, level)

    def introduction(
        self, state: FedCorrState, exchange: Exchange, clients: tuple[int, ...]
    ) -> Exchange:
        """Everybody with a noise level of its own."""
        personal = {client: self._to_preprocess(state, client) for client in clients}
        return replace(exchange, clients=clients, personal=personal)

    def merge(self, state: FedCorrState, exchange: Exchange, replies: Replies) -> FedCorrState:
        """Average the models (of one client: take it over), note LIDs and noise levels."""
        models, lids, reported = RunningMean(), dict(state.lids), dict[int, float]()
        for reply in replies:
            if reply.weights is not None:
                models.add(reply.weights, reply.samples)
            if "lid" in reply.payload:
                lids[reply.client] = (*lids[reply.client], float(reply.payload["lid"]))
            if "noise_level" in reply.payload:
                reported[reply.client] = float(reply.payload["noise_level"])
        mean = models.mean()
        state = replace(state, net=mean["net"] if mean else state.net, lids=lids)
        if exchange.message.kind != "correct":
            return state
        noisy = dict.fromkeys(exchange.clients)
        levels = {  # a noisy client that did not answer keeps the level it had
            client: reported.get(client, before) if client in noisy else 0.0
            for client, before in state.noise_levels.items()
        }
        return replace(state, noise_levels=levels, noisy=exchange.clients)

    # The client

    def visit(
        self, client: Client, memory: FedCorrMemory | None, received: Message, rng: Streams
    ) -> Visit[FedCorrMemory]:
        """What a client does with a message."""
        memory = memory or FedCorrMemory()
        net, labels = client.net(received.weights["net"]), _labels(client, memory)
        if received.kind in ("correct", "relabel"):
            return self._correct(client, net, memory, received.kind)
        pull = self.options.pull * float(received.payload.get("noise_level", 0.0))
        learning = PulledMixUp(net, labels, pull, rng, squared=self.options.squared)
        train(net, client.samples, learning.select, learning, self.training, rng)
        payload: Payload = {}
        if received.kind == "preprocess":
            logits = predict_local(net, client.samples)
            # Cross-entropy of the softmax outputs taken as logits, as in the released code.
            memory = replace(memory, losses=label_scores(logits, labels, "bounded"))
            if len(client) >= FEWEST:
                outputs = np.exp(log_softmax(logits))
                lid = intrinsic_dimensions(outputs, self.options.neighbours).mean()
                payload = {"lid": np.array(lid)}
        return Visit(trained_reply(client, net, received, payload), memory)

    def _correct(
        self, client: Client, net: torch.nn.Module, memory: FedCorrMemory, kind: str
    ) -> Visit[FedCorrMemory]:
        """New labels where the model is sure: of the most suspicious samples, or of all."""
        labels = _labels(client, memory)
        outputs = np.exp(log_softmax(predict_global(net, client.samples)))
        changed = outputs.max(axis=1) > self.options.confidence
        payload: Payload = {}
        diary: Diary = {}
        if kind == "correct":
            losses = np.zeros(len(client)) if memory.losses is None else memory.losses
            noisy = client.samples.doubted(larger_component(losses))
            losses = np.where(client.samples.doubted(np.ones(len(client), bool)), losses, -np.inf)
            changed &= largest(losses, int(noisy.sum() * self.options.relabel_share + 1e-9))
            payload = {"noise_level": np.array(share(noisy))}
            diary = flagged_diary(client.samples, labels, noisy)
        corrected = client.samples.kept(np.where(changed, outputs.argmax(axis=1), labels))
        diary["relabelled"] = int((corrected != labels).sum())
        reply = Reply(client.id, len(client), payload=payload)
        return Visit(reply, replace(memory, labels=corrected), diary)

    # What everybody else asks of a method

    def weights(self, state: FedCorrState) -> Weights:
        """The one global model."""
        return {"net": state.net}

    def kinds(self, facts: Facts) -> Mapping[str, Kind]:
        """One number about the client's outputs or labels; who corrects labels does not train."""
        lid = Declared((), 0.0, CAP, optional=True)  # clients of very few samples have none
        return {
            "preprocess": Kind({**DIVERGENCE, "lid": lid}, message=("noise_level",)),
            "correct": Kind({"noise_level": Declared((), 0.0, 1.0)}, ()),
            "relabel": Kind(models=()),
            "train": Kind(DIVERGENCE),
        }

    def assess(self, client: Client, memory: FedCorrMemory | None, received: Message) -> Assessment:
        """A given label is wrong where it was corrected: there is no other opinion."""
        logits = predict_global(client.net(received.weights["net"]), client.samples)
        kept = _labels(client, memory or FedCorrMemory()) == client.samples.given.numpy()
        return Assessment.of(logits, kept.astype(np.float64))

    def records(self, state: FedCorrState) -> Diary:
        """Who is held to be noisy."""
        return {"noisy_clients": list(state.noisy)}


def largest(values: Array, count: int) -> Mask:
    """The `count` largest values [n]; of equal ones the first."""
    chosen = np.zeros(len(values), dtype=bool)
    chosen[np.argsort(-values, kind="stable")[:count]] = True
    return chosen


def noisy_clients(lids: Mapping[int, tuple[float, ...]]) -> tuple[int, ...]:
    """The clients of larger cumulative LID.

    One that missed an iteration counts as if it had gone on as before, and one that never sent a
    score (it has too few samples) as the median of the others. Sums that are far from the median
    count as if they were nearer: one client that says anything must not be a group of its own, with
    everybody else in the other.
    """
    iterations = max((len(said) for said in lids.values()), default=0)
    known = {k: sum(said) * (iterations / len(said)) for k, said in lids.items() if said}
    if not known:
        return ()
    ids, median = sorted(lids), float(np.median(list(known.values())))
    sums = np.array([known.get(client, median) for client in ids])
    noisy = larger_component(np.clip(sums, median / FAR_BELOW, median * FAR_ABOVE))
    return tuple(client for client, found in zip(ids, noisy, strict=True) if found)


def clean_pool(levels: Mapping[int, float], below: float, fallback: int) -> tuple[int, ...]:
    """Clients whose noise level is at most `below`, or else the `fallback` cleanest ones."""
    pool = tuple(client for client, level in levels.items() if level <= below)
    return pool or tuple(sorted(levels, key=lambda client: (levels[client], client))[:fallback])


def _labels(client: Client, memory: FedCorrMemory) -> Labels:
    """The labels as they are now: given, or corrected at an earlier visit."""
    given = client.samples.given.numpy()
    return given if memory.labels is None else client.samples.kept(memory.labels)

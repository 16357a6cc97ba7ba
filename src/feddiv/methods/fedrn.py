"""FedRN: labels are judged together with reliable neighbours (Kim et al., CIKM 2022).

Symbols of the paper: M_k = a client's own model of its last visit, e_k = `expertise`, o_k = `probe`
(the logits of M_k on one noise image that all share), a = `expertise_weight`, v = `neighbours`,
rho = `reliability`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field

from feddiv.core.arrays import Array, StateDict, Weights
from feddiv.core.randomness import Streams
from feddiv.learning.average import RunningMean
from feddiv.learning.predict import predict_global, predict_local
from feddiv.learning.score import minmax
from feddiv.learning.small_loss import trust
from feddiv.learning.train import Selection, cross_entropy, everything, sgd, train
from feddiv.methods.common import (
    DIVERGENCE,
    copy_of,
    flagged_diary,
    trained_reply,
    warmed_up,
)
from feddiv.methods.contract import (
    Assessment,
    Client,
    Declared,
    Exchange,
    Facts,
    Kind,
    Message,
    Method,
    MethodOptions,
    Moment,
    Payload,
    Replies,
    Stage,
    Visit,
)

if TYPE_CHECKING:
    from feddiv.nets.net import Net

LARGEST_LOGIT = 1e6  # on a noise image, of a model that is of any use
TINY = 1e-12  # where nobody is reliable, all count the same


class FedRNOptions(MethodOptions):
    """FedRN's own options: those of the released run script, but for the length of warm-up."""

    name: str = "fedrn"
    warmup_share: float = Field(0.1, ge=0, lt=1)  # of the rounds, on all given labels
    neighbours: int = Field(2, ge=0, le=1000)  # v
    expertise_weight: float = Field(0.6, ge=0, le=1)  # a; similarity has the rest


@dataclass(frozen=True)
class FedRNState:
    """The server's state; models of single clients are on the shelf."""

    net: StateDict
    sizes: dict[int, int]
    models: dict[int, str]  # M_k, by name
    expertise: dict[int, float]
    probes: dict[int, npt.NDArray[np.float64]]


@dataclass(frozen=True)
class FedRNMemory:
    """What a client keeps of its last visit; it never leaves the client."""

    net: StateDict  # M_k
    p_clean: Array | None = None  # what it and its neighbours made of its labels [n]


class FedRN(Method[FedRNState, FedRNMemory]):
    """A label is kept if the client's own model and those of reliable neighbours trust it."""

    name = "fedrn"
    summary = "labels judged together with models of reliable neighbours"
    paper = "Kim et al., CIKM 2022"
    Options = FedRNOptions
    options: FedRNOptions
    single_models = True
    judges_unseen = True

    # The server

    def stages(self) -> tuple[Stage, ...]:
        """Plain rounds on all given labels, then filtered ones; at least one of these."""
        return warmed_up(self.budget, self.options.warmup_share)

    def begin(
        self, make_model: Callable[[str], StateDict], facts: Facts, rng: Streams
    ) -> FedRNState:
        """A fresh model; nobody's own model is known."""
        return FedRNState(make_model("net"), facts.sizes, {}, {}, {})

    def plan(self, state: FedRNState, moment: Moment, rng: Streams) -> Exchange | None:
        """After warm-up everyone also receives the models of its neighbours."""
        if moment.exchange:
            return None
        chosen = self.choose(state.sizes, rng)
        message = Message(moment.stage, {"net": state.net})
        if moment.stage == "warmup":
            return Exchange(chosen, message)
        return Exchange(chosen, message, {client: self._to(client, state) for client in chosen})

    def _to(self, client: int, state: FedRNState) -> Message:
        scores = reliability(client, state.expertise, state.probes, self.options.expertise_weight)
        others = sorted(scores.keys() - {client}, key=lambda other: (-scores[other], other))
        chosen = others[: self.options.neighbours] if client in scores else []
        nets: Weights = {"net": state.net}
        for place, other in enumerate(chosen):
            nets[f"neighbour {place}"] = self.model_store.get(state.models[other])
        own = scores.get(client, 1.0)
        payload: Payload = {"reliability": np.array([own, *(scores[other] for other in chosen)])}
        return Message("train", nets, payload)

    def merge(self, state: FedRNState, exchange: Exchange, replies: Replies) -> FedRNState:
        """The n_k-weighted mean; each model also goes on the shelf, as its client's own."""
        total = RunningMean()
        models, expertise = dict(state.models), dict(state.expertise)
        probes = dict(state.probes)
        for reply in replies:
            if reply.weights is None:
                continue
            total.add(reply.weights, reply.samples)
            label = f"server-{reply.client:06d}"
            models[reply.client] = self.model_store.put(label, reply.weights["net"])
            expertise[reply.client] = float(reply.payload["expertise"])
            probes[reply.client] = np.asarray(reply.payload["probe"], np.float64)
        mean = total.mean()
        merged = mean["net"] if mean else state.net
        return replace(state, net=merged, models=models, expertise=expertise, probes=probes)

    # The client

    def visit(
        self, client: Client, memory: FedRNMemory | None, received: Message, rng: Streams
    ) -> Visit[FedRNMemory]:
        """Judge the labels together, train the global model on those that are trusted."""
        samples, diary, p_clean = client.samples, {}, None
        select = everything(samples)
        if received.kind == "train":
            trusts = self._trusts(client, memory, received, rng)
            reliabilities = received.payload["reliability"] + TINY
            p_clean = np.average(trusts, axis=0, weights=reliabilities)
            clean = kept(p_clean)
            diary = flagged_diary(samples, samples.given.numpy(), ~clean)
            select = only(clean, samples.given)
        net = client.net(received.weights["net"])
        train(net, samples, select, cross_entropy, self.training, rng)
        reply = trained_reply(client, net, received)
        payload = self._self_portrait(client, net, rng)
        memory = FedRNMemory(copy_of(net), p_clean)
        return Visit(replace(reply, payload=payload), memory, diary)

    def _trusts(
        self, client: Client, memory: FedRNMemory | None, received: Message, rng: Streams
    ) -> list[Array]:
        """p^(0) of the client's own model, then of each neighbour, fitted to what that one trusts.

        A client that was never visited has the received model for its own.
        """
        samples, given = client.samples, client.samples.given.numpy()
        own = received.weights["net"] if memory is None else memory.net
        trusts = [samples.believed(trust(predict_local(client.net(own, "own"), samples), given))]
        select = only(kept(trusts[0]), samples.given)
        one_epoch = self.training.model_copy(update={"epochs": 1})
        for name in received.weights:
            if name == "net":
                continue
            net = client.net(received.weights[name], "neighbour")
            with body_frozen(net):
                head = sgd(cast("Net", net).head, self.training)
                part = rng.within(name)
                train(net, samples, select, cross_entropy, one_epoch, part, head)
            trusts.append(samples.believed(trust(predict_local(net, samples), given)))
        return trusts

    def _self_portrait(self, client: Client, net: torch.nn.Module, rng: Streams) -> Payload:
        """e_k and o_k of the trained model."""
        right = predict_local(net, client.samples).argmax(axis=1) == client.samples.given.numpy()
        everybody = rng.at(round=0, exchange=0, client=-1)
        plain = client.samples.plain(slice(0, 1))
        noise = torch.randn(plain.shape, generator=everybody.torch("probe")).to(plain.device)
        with torch.no_grad():
            probe = net.eval()(noise)[0]
        told = np.nan_to_num(probe.double().cpu().numpy())
        return {
            "expertise": np.array(float(right.mean())),
            # Cut, so that who trains a spoilt model is not refused for what it says.
            "probe": told.clip(-LARGEST_LOGIT, LARGEST_LOGIT),
        }

    # What everybody else asks of a method

    def weights(self, state: FedRNState) -> Weights:
        """The one global model."""
        return {"net": state.net}

    def kept(self, state: FedRNState) -> list[str]:
        """Everybody's own model."""
        return sorted(state.models.values())

    def kinds(self, facts: Facts) -> Mapping[str, Kind]:
        """How well the trained model fits the client's labels, and its logits on the probe."""
        probe = Declared((len(facts.classes),), -LARGEST_LOGIT, LARGEST_LOGIT)
        reply = {**DIVERGENCE, "expertise": Declared((), 0.0, 1.0), "probe": probe}
        return {"warmup": Kind(reply), "train": Kind(reply, message=("reliability",))}

    def assess(self, client: Client, memory: FedRNMemory | None, received: Message) -> Assessment:
        """The global model's predictions, and what the client last judged with its neighbours.

        Their models are not sent once more. Who has not judged yet trusts its own model alone or,
        if it was never visited, the global one.
        """
        logits = predict_global(client.net(received.weights["net"]), client.samples)
        given = client.samples.given.numpy()
        if memory is None:
            return Assessment.of(logits, trust(logits, given))
        if memory.p_clean is None:
            own = predict_local(client.net(memory.net, "own"), client.samples)
            return Assessment.of(logits, trust(own, given))
        return Assessment.of(logits, memory.p_clean)

    def assess_held_out(
        self, client: Client, memory: FedRNMemory | None, received: Message
    ) -> Assessment:
        """The client's own model judges: its neighbours never saw these samples."""
        alone = None if memory is None else replace(memory, p_clean=None)
        return super().assess_held_out(client, alone, received)


def reliability(
    client: int, expertise: Mapping[int, float], probes: Mapping[int, Array], weight: float
) -> dict[int, float]:
    """rho of every client seen so far, to this client; empty where itself was never seen.

    Expertise and similarity are min-max scaled over the clients seen; where all are equal they
    count 1/2. A client is as similar to itself as can be.
    """
    if client not in probes:
        return {}
    ids = sorted(probes)
    mine = probes[client]
    similar = minmax(np.array([cosine(mine, probes[other]) for other in ids]))
    expert = minmax(np.array([expertise[other] for other in ids]))
    scores = weight * expert + (1 - weight) * similar
    found = {other: float(score) for other, score in zip(ids, scores, strict=True)}
    return found | {client: float(weight * expert[ids.index(client)] + 1 - weight)}


def cosine(one: Array, other: Array) -> float:
    """Of two vectors; 0 where one of them is 0."""
    norms = float(np.linalg.norm(one) * np.linalg.norm(other))
    return float(one @ other) / norms if norms > 0 else 0.0


def kept(trusts: Array) -> npt.NDArray[np.bool_]:
    """Which labels [n] are kept: those trusted by more than 1/2, or all where none is."""
    clean = trusts > 0.5
    return clean if clean.any() else np.ones_like(clean)


def only(clean: npt.NDArray[np.bool_], given: torch.Tensor) -> Callable[[int], Selection]:
    """These samples with their given labels, in every epoch."""
    rows = torch.from_numpy(np.flatnonzero(clean))
    return lambda epoch: (rows, given[rows])


class body_frozen:
    """Inside the block only the head of a net has gradients; batch-norm statistics still move."""

    def __init__(self, net: torch.nn.Module) -> None:
        self.net = net
        head = {id(parameter) for parameter in cast("Net", net).head.parameters()}
        self.body = [p for p in net.parameters() if id(p) not in head and p.requires_grad]

    def __enter__(self) -> None:
        for parameter in self.body:
            parameter.requires_grad_(False)

    def __exit__(self, *reason: object) -> None:
        for parameter in self.body:
            parameter.requires_grad_(True)

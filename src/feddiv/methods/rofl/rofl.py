"""RoFL: centroids of features, exchanged by class (Yang et al., IEEE Intelligent Systems 2022).

Symbols of the paper: theta = `net`, G = the server's `centroids` [C, d], A = a client's, h =
`features` [B, d] (the input of the head), y = the given label, y-hat = the received model's
prediction, J = the small-loss samples of a batch, r_t = `forget_rate`, T_k = `forget_ramp`, T_pl =
`trusted_after`, lambda_cen = `centroid_weight`, lambda_e = `entropy_weight`.

Public code of this method has a centroid term without a gradient, and starts G as noise. Here h is
differentiable, the term is a mean over samples and features, and a row of G exists from the first
round in which a client has the class; until then it is zero, and is no centroid.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from pydantic import Field

from feddiv.core.arrays import Array, StateDict, Weights
from feddiv.core.randomness import Streams
from feddiv.learning.average import RunningMean
from feddiv.learning.predict import predict, predict_global
from feddiv.learning.train import Batch, entropy_loss, everything, train
from feddiv.methods.common import DIVERGENCE, trained_reply
from feddiv.methods.contract import (
    Client,
    Declared,
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
    Visit,
)
from feddiv.methods.rofl.centroids import (
    CentroidMean,
    centroid_loss,
    class_means,
    confirms,
    followed,
)

if TYPE_CHECKING:
    from feddiv.nets.net import Net

LARGEST_FEATURE = 1e6  # of a model that is of any use


class RoFLOptions(MethodOptions):
    """RoFL's options; shares are of the budget's rounds."""

    name: str = "rofl"
    forget_rate: float = Field(0.2, ge=0, le=1)  # of a batch, once the ramp is over
    forget_ramp: int = Field(10, ge=0, le=1_000_000)  # rounds in which it rises from 0
    trusted_after: float = Field(0.1, ge=0, le=1)  # share of rounds until pseudo-labels count
    centroid_weight: float = Field(1.0, ge=0)  # of the distance of features to their centroid
    entropy_weight: float = Field(0.8, ge=0)  # of the entropy of predictions


@dataclass(frozen=True)
class RoFLState:
    """The server's state."""

    net: StateDict  # theta^(t)
    centroids: Array | None  # G, None before the first round
    sizes: dict[int, int]  # n_k


class RoFL(Method[RoFLState, None]):
    """Train on small losses; where the centroids doubt a label, believe the received model."""

    name = "rofl"
    summary = "small-loss samples, labels checked against class centroids that clients share"
    paper = "Yang et al., IEEE Intelligent Systems 2022"
    Options = RoFLOptions
    options: RoFLOptions
    shares_of_rounds = ("trusted_after",)

    # The server

    def begin(
        self, make_model: Callable[[str], StateDict], facts: Facts, rng: Streams
    ) -> RoFLState:
        """A fresh model and no centroids."""
        return RoFLState(make_model("net"), None, facts.sizes)

    def plan(self, state: RoFLState, moment: Moment, rng: Streams) -> Exchange | None:
        """One exchange a round with a fraction of the clients."""
        if moment.exchange:
            return None
        chosen = self.choose(state.sizes, rng)
        payload = self.schedule(moment.turn)
        if state.centroids is not None:
            payload["centroids"] = state.centroids
        return Exchange(chosen, Message("train", {"net": state.net}, payload))

    def schedule(self, turn: int) -> Payload:
        """r_t, lambda_cen(t), and whether pseudo-labels count, in round `turn` (from 0)."""
        options, trusted = self.options, self.budget.part(self.options.trusted_after)
        return {
            "forget_rate": np.array(options.forget_rate * _ramp(turn, options.forget_ramp)),
            "centroid_weight": np.array(options.centroid_weight * _ramp(turn, trusted)),
            "pseudo_labels": np.array(float(turn >= trusted)),
        }

    def merge(self, state: RoFLState, exchange: Exchange, replies: Replies) -> RoFLState:
        """The n_k-weighted mean of the models, and the cosine-weighted mean of the centroids."""
        models, centroids = RunningMean(), CentroidMean(state.centroids)
        for reply in replies:
            if reply.weights is not None:
                models.add(reply.weights, reply.samples)
            centroids.add(reply.payload["centroids"])
        mean = models.mean()
        return RoFLState(mean["net"] if mean else state.net, centroids.mean(), state.sizes)

    # The client

    def visit(self, client: Client, memory: None, received: Message, rng: Streams) -> Visit[None]:
        """Learn from small losses, and let the centroids follow."""
        net, samples, payload = (
            client.net(received.weights["net"]),
            client.samples,
            received.payload,
        )

        # What stands in for a doubted label: y-hat, once the model has learnt something.
        stand_ins = samples.given
        if payload["pseudo_labels"]:
            stand_ins = torch.from_numpy(samples.kept(predict_global(net, samples).argmax(axis=1)))

        # A = G. A net that has no features and head is refused here, in the first round.
        centroids = local_centroids(net, client, payload.get("centroids"))
        objective = CentroidObjective(
            centroids,
            stand_ins,
            samples.trusted,
            forget_rate=float(payload["forget_rate"]),
            centroid_weight=float(payload["centroid_weight"]),
            entropy_weight=self.options.entropy_weight,
        )
        train(net, samples, everything(samples), objective, self.training, rng)
        # Cut, so that who trains a spoilt model is not refused for what it says.
        told = objective.centroids.clamp(-LARGEST_FEATURE, LARGEST_FEATURE)
        payload = {"centroids": told.double().cpu().numpy()}
        diary = {"trained": objective.trained, "confident": int(objective.confident)}
        return Visit(trained_reply(client, net, received, payload), None, diary)

    # What everybody else asks of a method

    def weights(self, state: RoFLState) -> Weights:
        """The one global model."""
        return {"net": state.net}

    def kinds(self, facts: Facts) -> Mapping[str, Kind]:
        """The model, how far it moved, and class means of features."""
        centroids = Declared((len(facts.classes), None), -LARGEST_FEATURE, LARGEST_FEATURE)
        reply = {**DIVERGENCE, "centroids": centroids}
        return {"train": Kind(reply, message=(*self.schedule(0), "centroids"))}


def _ramp(turn: int, length: int) -> float:
    """From 0 in the first round to 1 after `length` rounds."""
    return 1.0 if turn >= length else turn / length


class CentroidObjective:
    """The loss of one visit, and the client's centroids A, which follow every batch.

    `trained` and `confident` count the samples in J, and those among them whose label A confirms.
    """

    def __init__(
        self,
        centroids: torch.Tensor,
        stand_ins: torch.Tensor,
        trusted: torch.Tensor | None = None,
        *,
        forget_rate: float,
        centroid_weight: float,
        entropy_weight: float,
    ) -> None:
        self.centroids, self.stand_ins, self.trusted = centroids, stand_ins, trusted
        self.forget_rate = forget_rate
        self.centroid_weight, self.entropy_weight = centroid_weight, entropy_weight
        self.trained, self.confident = 0, torch.zeros((), dtype=torch.int64)

    def __call__(self, net: torch.nn.Module, batch: Batch) -> torch.Tensor:
        """L = CE + lambda_cen(t) L_cen + lambda_e H, over J."""
        net = cast("Net", net)
        features = net.features(batch.inputs)
        logits = net.head(features)
        losses = torch.nn.functional.cross_entropy(logits.detach(), batch.labels, reduction="none")
        sure = None if self.trusted is None else self.trusted[batch.rows].to(losses.device)
        small = small_losses(losses, self.forget_rate, sure)
        features, logits, given = features[small], logits[small], batch.labels[small]

        confident = confirms(self.centroids, features.detach(), given)
        stand_ins = self.stand_ins[batch.rows].to(given.device)[small]
        loss = torch.nn.functional.cross_entropy(logits, torch.where(confident, given, stand_ins))
        if self.centroid_weight:
            loss = loss + self.centroid_weight * centroid_loss(
                features, self.centroids[given], confident
            )
        # The step comes later, but these features are of the net before it either way.
        self.centroids = followed(self.centroids, features.detach(), given)
        self.trained += len(given)
        self.confident = self.confident + confident.sum()
        return loss + self.entropy_weight * entropy_loss(logits)


def small_losses(
    losses: torch.Tensor, forget_rate: float, trusted: torch.Tensor | None = None
) -> torch.Tensor:
    """J: the positions of the floor((1 - r_t) B) smallest losses [B], at least one.

    Those that are `trusted` [B] come first, and all of them.
    """
    kept = max(int((1 - forget_rate) * len(losses) + 1e-9), 1)
    if trusted is not None:
        kept = max(kept, int(trusted.sum()))
        losses = losses.masked_fill(trusted, -torch.inf)
    return losses.argsort(stable=True)[:kept]


def local_centroids(net: torch.nn.Module, client: Client, received: Array | None) -> torch.Tensor:
    """A at the start of a visit: G, and where it has no row for a class, the class mean here."""
    device, given = cast("Net", net).head.weight.device, client.samples.given
    centroids = None
    if received is not None:
        centroids = torch.tensor(received, dtype=torch.float32, device=device)
        if centroids.any(dim=1)[given].all():
            return centroids
    features = predict(net, client.samples, forward=_features)
    means = class_means(features, given.to(device), client.classes)
    if centroids is None:
        return means
    return torch.where(centroids.any(dim=1, keepdim=True), centroids, means)


def _features(nets: Nets, inputs: torch.Tensor) -> torch.Tensor:
    return cast("Net", nets["net"]).features(inputs)

"""ARFL, residual-based: models off the common line count little (Fu et al., arXiv 1912.11464).

Clients train as in FedAvg. The server puts the m models' values of a coordinate in order and lays
a line through them over their ranks; a model whose value is far from the line, measured by the
spread of all, is trusted less there. A model's weight is the trust it has earned over all
coordinates; how many samples its client has does not count.

Symbols of the paper: y_i = a model's value of one coordinate, x_i = its rank, a and b = the
line's intercept and slope, e_i = the residual in units of the spread, h_i = the leverage of rank
x_i. Half of the models of a round may be bad, not more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from feddiv.core.arrays import Array, StateDict
from feddiv.core.randomness import Streams
from feddiv.learning.average import RunningMean, copied, floating
from feddiv.learning.train import cross_entropy, everything, train
from feddiv.methods.averaging import Averaging, AveragingState
from feddiv.methods.common import trained_reply
from feddiv.methods.contract import Client, Exchange, Message, MethodOptions, Replies, Visit

FEWEST = 3  # models: a line goes through any two
STRICTNESS = 2.0  # lambda: confidence is full up to about lambda sqrt(2 / m) spreads
DOUBTFUL = 0.1  # a value of less confidence than this is replaced by the line's
SPREAD_FLOOR = 1e-7
SHARD = 8000  # coordinates at a time: in float64, all of a large net's would fill the memory
VARIANCE = "running_var"  # how torch's normalisation layers name it


class ArflResidualOptions(MethodOptions):
    """Nothing to choose: the constants are the authors'."""

    name: str = "arfl_residual"


class ArflResidual(Averaging[None]):
    """Everyone trains on the labels they were given; the server looks for models that stand out."""

    name = "arfl_residual"
    summary = "models that stand out from the others, coordinate by coordinate, count less"
    paper = "Fu et al., arXiv 1912.11464"
    Options = ArflResidualOptions
    single_models = True

    def visit(self, client: Client, memory: None, received: Message, rng: Streams) -> Visit[None]:
        """E epochs of SGD from the received weights."""
        net = client.net(received.weights["net"])
        train(net, client.samples, everything(client.samples), cross_entropy, self.training, rng)
        return Visit(trained_reply(client, net, received), None)

    def merge(self, state: AveragingState, exchange: Exchange, replies: Replies) -> AveragingState:
        """The mean weighted by confidence; FedAvg's where the models are too few for a line."""
        # A model's rank is known when the last one has come, so unlike FedAvg's server this one
        # has to hold, and see, every single model.
        models: list[StateDict] = []
        amounts: list[float] = []
        for reply in replies:
            if reply.weights is not None:
                models.append(copied(reply.weights)["net"])
                amounts.append(reply.samples)
        if len(models) >= FEWEST:
            amounts, models = residual_weights(models)
        total = RunningMean()
        for model, amount in zip(models, amounts, strict=True):
            total.add({"net": model}, amount)
        mean = total.mean()
        return replace(state, net=mean["net"]) if mean else state


def residual_weights(models: Sequence[StateDict]) -> tuple[list[float], list[StateDict]]:
    """The weight of each model, and the models with their doubtful values replaced.

    Every floating entry that has a dimension takes part, batch-norm statistics included.
    """
    trust = np.zeros(len(models))
    restricted = [dict(model) for model in models]
    for key, like in floating(models[0]):
        if not like.dim():
            continue
        values = torch.stack([model[key].reshape(-1) for model in models])
        for shard in torch.split(values, SHARD, dim=1):
            earned, kept = restrict(
                shard.T.double().contiguous().numpy(), bounded=key.endswith(VARIANCE)
            )
            trust += earned
            shard.copy_(torch.from_numpy(kept.T))
        for model, value in zip(restricted, values, strict=True):
            model[key] = value.reshape(like.shape)
    if not trust.any():  # nobody stands out anywhere
        return [1.0] * len(models), restricted
    weights: list[float] = np.square(trust / trust.max()).tolist()
    return weights, restricted


def restrict(values: Array, *, bounded: bool = False) -> tuple[Array, Array]:
    """What each model earns here [m], and its values [coordinates, m] with doubtful ones replaced.

    A coordinate counts by how much confidence differs between models. `bounded` keeps replaced
    values between those of the models: the line could make a variance negative.
    """
    confidence, fitted = confidences(values)
    if bounded:
        fitted = fitted.clip(values.min(axis=1, keepdims=True), values.max(axis=1, keepdims=True))
    earned = (confidence * confidence.std(axis=1, keepdims=True)).sum(axis=0)
    return earned, np.where(confidence < DOUBTFUL, fitted, values)


def confidences(values: Array) -> tuple[Array, Array]:
    """Confidence in (0, 1] in each of the values, and what the line says; [coordinates, m] each."""
    m = values.shape[1]
    ranks = values.argsort(axis=1, kind="stable").argsort(axis=1)
    intercept, slope = repeated_median(np.sort(values, axis=1))
    fitted = intercept + slope * ranks
    residuals = np.abs(values - fitted)
    # The nearest point is left out: a line passes close to some point whatever the spread is.
    others = np.sort(residuals, axis=1)[:, 1:]
    spread = 1.4826 * (1 + 5 / (m - 1)) * np.median(others, axis=1, keepdims=True) + SPREAD_FLOOR
    offsets = np.arange(m) - (m - 1) / 2
    leverage = 1 / m + offsets**2 / (offsets**2).sum()
    limit = (STRICTNESS * np.sqrt(2 / m) * np.sqrt(1 - leverage))[ranks]
    # (q / e) clip(e / q, -Z, Z) with q = sqrt(1 - h) and limit = Z q, also where e is 0.
    return limit / np.maximum(limit, residuals / spread), fitted


def repeated_median(heights: Array) -> tuple[Array, Array]:
    """Intercept and slope [coordinates, 1] of a line over ranks; `heights` [coordinates, m] ascend.

    The slope is the median over points of the median slope from a point to all others.
    """
    ranks = np.arange(heights.shape[1])
    steepness = [
        np.median((heights[:, [i]] - heights[:, ranks != i]) / (i - ranks[ranks != i]), axis=1)
        for i in ranks
    ]
    slope = np.median(steepness, axis=0)[:, None]
    return np.median(heights, axis=1, keepdims=True) - slope * ranks.mean(), slope

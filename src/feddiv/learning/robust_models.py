"""Robust aggregates of models: the rules of `robust.py`, a stretch of entries at a time.

Models are held as they came; in float64 there is never more of them than one stretch. As in
`RunningMean` every floating entry takes part, and integer entries are the first model's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch

from feddiv.core.arrays import Array, Weights
from feddiv.learning.average import counted, floating
from feddiv.learning.robust import (
    geometric_median_weights,
    krum,
    weighted_median,
    weighted_trimmed_mean,
)

STRETCH = 1 << 15  # entries of each model
Centre = Callable[[Array], Array]  # of values [K, P]


def robust_aggregate(rule: str, models: Sequence[Weights], weights: Array, trim: float) -> Weights:
    """What the models become by this rule of `robust.weights`."""
    if rule == "krum":
        return models[krum(squared_distances(models), trim)]
    if rule == "geometric_median":
        share = geometric_median_weights(squared_distances(models), weights)
        return _centred(models, lambda values: share @ values)
    if rule == "trimmed_mean":
        return _centred(models, lambda values: weighted_trimmed_mean(values, weights, trim))
    assert rule == "median", rule
    return _centred(models, lambda values: weighted_median(values, weights))


def squared_distances(models: Sequence[Weights]) -> Array:
    """Between all models [K, K]."""
    products = np.zeros((len(models), len(models)))
    for _, _, values in _stretches(models):
        moved = values - values[0]  # small numbers: their differences keep their digits
        products += moved @ moved.T
    own = np.diag(products)
    return np.maximum(own[:, None] + own[None, :] - 2 * products, 0.0)


def update_cosines(models: Sequence[Weights], sent: Sequence[Weights]) -> Array:
    """Between the updates of all models [K, K]; those of an update that did not move are 0.

    What normalisation layers count of their inputs is left out: it moves the same way in an honest
    update and in one that was turned round.
    """
    products = np.zeros((len(models), len(models)))
    for (name, key), part, after in _stretches(models, trained_only=True):
        before = [each[name][key].reshape(-1)[part] for each in sent]  # by name, in whatever order
        moved = after - torch.stack(before).double().cpu().numpy()
        products += moved @ moved.T
    norms = np.sqrt(np.diag(products))
    apart = np.outer(norms, norms)
    return np.asarray(np.divide(products, apart, out=np.zeros_like(products), where=apart > 0))


def clipped(model: Weights, sent: Weights, factor: float) -> Weights:
    """The model whose update from what was sent is shrunk by this factor, in memory of its own."""
    return {
        name: {
            key: torch.lerp(sent[name][key].double(), value.double(), factor).to(value.dtype)
            if value.is_floating_point()
            else value.clone()
            for key, value in net.items()
        }
        for name, net in model.items()
    }


def turned_back(model: Weights, sent: Weights) -> Weights:
    """The model whose update from what was sent is turned round, in memory of its own.

    What normalisation layers count of their inputs has no direction, and stays as it is.
    """
    return {
        name: {
            key: torch.lerp(sent[name][key].double(), value.double(), -1.0).to(value.dtype)
            if value.is_floating_point() and not counted(key)
            else value.clone()
            for key, value in net.items()
        }
        for name, net in model.items()
    }


def _centred(models: Sequence[Weights], centre: Centre) -> Weights:
    """The centre of every entry."""
    result: Weights = {
        name: {
            key: torch.empty_like(value, memory_format=torch.contiguous_format)
            if value.is_floating_point()
            else value.clone()
            for key, value in net.items()
        }
        for name, net in models[0].items()
    }
    flat = {
        (name, key): value.view(-1) for name, net in result.items() for key, value in net.items()
    }
    for place, part, values in _stretches(models):
        flat[place][part] = torch.from_numpy(centre(values)).to(flat[place].dtype)
    return result


def _stretches(
    models: Sequence[Weights], *, trained_only: bool = False
) -> Iterator[tuple[tuple[str, str], slice, Array]]:
    """Values [K, P] of all models, at most `STRETCH` entries at a time, and where they belong."""
    for name, net in models[0].items():
        for key, like in floating(net):
            if trained_only and counted(key):
                continue
            columns = [model[name][key].reshape(-1) for model in models]
            for start in range(0, like.numel(), STRETCH):
                part = slice(start, min(start + STRETCH, like.numel()))
                values = torch.stack([column[part] for column in columns]).double().cpu()
                yield (name, key), part, values.numpy()

"""Centres of values from several clients, some of whom may lie: pure functions of arrays.

Rows are clients, columns are coordinates, weights say how much a client counts. All work in float64
and without randomness.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from feddiv.core.arrays import Array

LARGEST_SIZE = 3.0  # times the median n_k: what a client may count for in a robust centre
WEISZFELD_STEPS = 32
SMOOTHING = 1e-6  # of the smallest distance: a model that lies on the centre has a finite weight


@dataclass(frozen=True)
class CentreRule:
    """Which centre is taken of clients' rows: `sum` leaves it to whoever adds them up."""

    name: str = "sum"  # or median, trimmed_mean
    trim: float = 0.3  # share of weight at each end, of a trimmed mean

    @property
    def robust(self) -> bool:
        """Whether it is another one than the method's own."""
        return self.name != "sum"

    def of(self, values: Array, weights: Array) -> Array:
        """The robust centre [P] of each column of values [K, P]."""
        if self.name == "median":
            return weighted_median(values, weights)
        return weighted_trimmed_mean(values, weights, self.trim)


def capped_sizes(sizes: Array) -> Array:
    """Sizes n_k [K], none above three times the median: who says it has more gains nothing."""
    return np.minimum(sizes, LARGEST_SIZE * np.median(sizes)) if len(sizes) else sizes


def weighted_median(values: Array, weights: Array) -> Array:
    """The median [P] of each column of values [K, P]; of equal weights it is the plain median."""
    order, below = _ordered(values, weights)
    ordered = np.take_along_axis(values, order, axis=0)
    lower = (below < 0.5 - 1e-12).sum(axis=0)  # the first row that reaches half of the weight
    upper = (below <= 0.5 + 1e-12).sum(axis=0)  # the first that is above it
    columns = np.arange(values.shape[1])
    last = len(values) - 1
    low, high = ordered[np.minimum(lower, last), columns], ordered[np.minimum(upper, last), columns]
    return np.asarray((low + high) / 2)


def weighted_trimmed_mean(values: Array, weights: Array, trim: float) -> Array:
    """The mean [P] of each column of values [K, P] without a share `trim` of weight at each end."""
    order, below = _ordered(values, weights)
    before = np.vstack([np.zeros(values.shape[1]), below[:-1]])
    kept = np.clip(np.minimum(below, 1 - trim) - np.maximum(before, trim), 0.0, None)
    ordered = np.take_along_axis(values, order, axis=0)
    return np.asarray((kept * ordered).sum(axis=0) / kept.sum(axis=0))


def _ordered(values: Array, weights: Array) -> tuple[np.ndarray, Array]:
    """The order of each column, and the share of weight up to each place of it; [K, P] both."""
    order = values.argsort(axis=0, kind="stable")
    reached = np.cumsum(weights[order], axis=0)
    return order, np.asarray(reached / reached[-1])


def krum(distances: Array, trim: float) -> int:
    """Which of K models has the nearest neighbours, by their squared distances [K, K].

    With f = floor(trim K) liars a model's score is the sum over its K - f - 2 nearest others, at
    least one; the smallest wins, of equal ones the first. Multi-Krum would take the mean of the m
    models of smallest score instead of the first alone. What holds in theory needs 2 f + 2 < K.
    """
    clients = len(distances)
    near = max(clients - int(trim * clients + 1e-9) - 2, 1)
    others = np.sort(distances + np.diag(np.full(clients, np.inf)), axis=1)[:, :near]
    return int(others.sum(axis=1).argmin())


def geometric_median_weights(distances: Array, weights: Array) -> Array:
    """How much each of K models counts [K] in their geometric median; sums to 1.

    Weiszfeld's steps, smoothed and of a fixed number. Every iterate z is a mean of the models, so
    |w_i - z|^2 follows from their squared distances D [K, K] and the shares b: (D b)_i - b D b / 2.
    """
    share = weights / weights.sum()
    apart = distances[distances > 0]
    if not len(apart):
        return np.asarray(share)
    least = max(SMOOTHING * float(np.sqrt(apart.min())), 1e-100)
    for _ in range(WEISZFELD_STEPS):
        towards = distances @ share
        gaps = np.sqrt(np.maximum(towards - share @ towards / 2, 0.0))
        share = weights / np.maximum(gaps, least)
        share = share / share.sum()
    return np.asarray(share)


def agreements(cosines: Array, weights: Array) -> Array:
    """How far each of K clients' updates points where the others' do [K]; below 0: against them.

    A client's agreement is the weighted mean of its cosines with the others that it has met;
    `cosines` [K, K] are NaN of those who have not. Who disagrees the most, in sum, is left out of
    that mean, then the next one, until nobody in it is below 0 or one is left: who has met many is
    judged before those who have met few.
    """
    met = ~np.isnan(cosines) & ~np.eye(len(weights), dtype=bool)
    known = np.where(met, cosines, 0.0)
    inside = np.ones(len(weights), bool)
    while True:
        share = met * (weights * inside)
        sums, total = (share * known).sum(axis=1), share.sum(axis=1)
        worst = int(np.where(inside, sums, np.inf).argmin())
        if sums[worst] >= 0 or inside.sum() == 1:
            return np.asarray(sums / np.where(total > 0, total, 1.0))
        inside[worst] = False

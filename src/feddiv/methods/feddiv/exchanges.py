"""What FedDiv's messages and replies carry: the one place that decides it.

The server fills its messages by it, clients their replies, and what is declared to whoever checks
a reply is read from it too. Everything is a total over a client's samples or a handful of numbers:
nothing is per sample.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from feddiv.core.arrays import Array
from feddiv.learning.score import LOG_ODDS_CLIP, score_range
from feddiv.methods.common import DIVERGENCE
from feddiv.methods.contract import Declared, Facts, Kind
from feddiv.methods.feddiv.feddiv_options import FedDivOptions
from feddiv.methods.feddiv.filter import BINS, FilterOptions
from feddiv.methods.feddiv.second_opinion import TEMPERATURES, least_log_likelihood

TRAINS = ("warmup", "train")  # kinds whose replies bring a model
LARGEST_CROSS_ENTROPY = 1e4  # of a model that is of any use: that label has odds of e^-10000
Pooled = Literal["total", "change"]
# One sample more in one bin and one less in another, or one probability vector for another.
ONE_MOVES = math.sqrt(2.0)


def openings(options: FedDivOptions) -> tuple[str, ...]:
    """Exchanges with all clients before the first filtered round, which make W^(1)."""
    if options.filter.scope == "perfect":
        return ()
    return ("bias", "filter") if options.filter.debias == "global" else ("filter",)


def downloads(options: FedDivOptions, kind: str, *, by_trust: bool) -> tuple[str, ...]:
    """Entries of a message; `mixture` and `temperature` once there is a filter."""
    filtering, entries = options.filter, ["eta", "mixture"]
    if filtering.debias == "global":
        entries.append("bias")
    if filtering.calibrated:
        entries.append("temperature")
    if kind == "train" and by_trust:
        entries.append("by_trust")
    if kind == "train" and filtering.starved_below > 0:
        entries.append("pardons")
    if kind == "train" and filtering.choosy and filtering.scope == "federated":
        entries.append("must_train")
    return tuple(entries)


def uploads(options: FedDivOptions, kind: str, *, by_trust: bool) -> tuple[str, ...]:
    """Entries of a reply's payload.

    With filter.scope=local the filter stays at the client; the perfect one needs nothing.
    """
    filtering, entries = options.filter, list[str]()
    federated = filtering.scope == "federated"
    if kind in ("bias", "train"):
        if filtering.debias == "global" and filtering.scope != "perfect":
            entries.append("softmax")
        if federated and filtering.calibrated:
            entries.append("likelihood")
    if kind == "train" and federated and filtering.tallied:
        entries.append("tally")
    if kind in ("filter", "train") and federated:
        entries.append("mixture" if filtering.aggregate == "mean" else "histogram")
    if kind == "train" and by_trust:
        entries.append("trusted")
    return tuple(entries)


def kinds(options: FedDivOptions, facts: Facts, *, by_trust: bool) -> Mapping[str, Kind]:
    """Every kind of exchange, with shapes and bounds."""
    largest = float(max(facts.sizes.values()))
    scope = Scope(options.filter, len(facts.classes), largest, options.relabel.persist)
    return {
        kind: Kind(
            reply={
                **(DIVERGENCE if kind in TRAINS else {}),
                **{name: BOUNDS[name](scope) for name in uploads(options, kind, by_trust=by_trust)},
            },
            models=("net",) if kind in TRAINS else (),
            message=downloads(options, kind, by_trust=by_trust),
        )
        for kind in planned(options)
    }


def planned(options: FedDivOptions) -> tuple[str, ...]:
    """Every kind of exchange that a run has."""
    first = openings(options)
    return first if options.only_filter else ("warmup", *first, "train")


@dataclass(frozen=True)
class Scope:
    """What bounds depend on: the filter's options, how many classes, the largest client's n_k."""

    options: FilterOptions
    classes: int
    largest: float
    persist: bool = False  # whether labels change for good

    @property
    def scores(self) -> tuple[float, float]:
        """The range of scores as the filter sees them."""
        if self.options.scale == "minmax":
            return 0.0, 1.0
        return score_range(self.options.score, self.classes) or (0.0, LARGEST_CROSS_ENTROPY)

    @property
    def each_by_itself(self) -> bool:
        """Whether a sample's score follows from it and what was received, and always counts."""
        options = self.options
        own = options.scale == "minmax" or options.debias == "local" or self.persist
        return options.count_equal and not (own or options.fits_local_scores)


def _softmax(scope: Scope) -> Declared:
    most = scope.largest
    return Declared(
        (scope.classes,),
        -most,
        most,
        pooled="change",
        impossible=no_counts,
        sensitivity=ONE_MOVES,
        nearest=nearest_counts,
    )


def _likelihood(scope: Scope) -> Declared:
    least = least_log_likelihood(scope.classes)

    def impossible(total: Array, samples: int) -> str:
        inside = (total >= least * samples - _slack(samples)) & (total <= _slack(samples))
        return "" if inside.all() else f"no likelihood of {samples} labels"

    size, lowest = len(TEMPERATURES), scope.largest * least
    return Declared((size,), lowest, -lowest, pooled="change", impossible=impossible)


def _tally(scope: Scope) -> Declared:
    swing = 2 * LOG_ODDS_CLIP * scope.largest  # of a sum of scores, from one end to the other
    return Declared((3, scope.classes), -swing, swing, pooled="change", impossible=no_tally)


def _mixture(scope: Scope) -> Declared:
    """Two means, two variances, two weights; one sample, or equal scores, have none."""
    (low, high), least = scope.scores, float(np.finfo(np.float64).tiny)
    slack, wide = 1e-9 * (high - low), (high - low) ** 2
    lows = (low - slack, low - slack, least, least, least, least)
    highs = (high + slack, high + slack, wide, wide, 1.0, 1.0)
    return Declared((6,), lows, highs, optional=True, impossible=no_mixture)


def _histogram(scope: Scope) -> Declared:
    """As a mixture: some clients have none. With members=round the server forgets histograms."""
    most: float = scope.largest
    pooled: Pooled = "total" if scope.options.members == "round" else "change"
    return Declared(
        (BINS,),
        -most,
        most,
        optional=True,
        pooled=pooled,
        impossible=no_counts,
        sensitivity=ONE_MOVES if scope.each_by_itself else None,
        nearest=nearest_counts,
    )


def _trusted(scope: Scope) -> Declared:
    return Declared((), 0.0, scope.largest, impossible=_too_much_trust)


# Shape and bounds of an upload. Totals are uploaded as changes, which may be negative.
BOUNDS: Mapping[str, Callable[[Scope], Declared]] = {
    "softmax": _softmax,
    "likelihood": _likelihood,
    "tally": _tally,
    "mixture": _mixture,
    "histogram": _histogram,
    "trusted": _trusted,
}


def no_counts(total: Array, samples: int) -> str:
    """Why these are no counts of a client's samples, or sums of their probabilities."""
    if (total < -_slack(samples)).any():
        return "a count below zero"
    if abs(total.sum() - samples) > _slack(samples):
        return f"counts of {total.sum():g} samples at a client of {samples}"
    return ""


def nearest_counts(total: Array, samples: int) -> Array:
    """The counts of so many samples that are nearest to noisy ones: none below zero.

    (Euclidean projection onto the simplex; Duchi et al., ICML 2008.)
    """
    ordered = np.sort(total)[::-1]
    excess = (np.cumsum(ordered) - samples) / np.arange(1, len(ordered) + 1)
    last = np.nonzero(ordered > excess)[0]
    return np.maximum(total - excess[last[-1]], 0.0) if len(last) else np.zeros_like(total)


def no_tally(total: Array, samples: int) -> str:
    """Why this is no tally: labels given, those that look right, and summed scores, by class."""
    given, right, scores = total
    if why := no_counts(given, samples):
        return why
    slack = _slack(samples)
    if (right < -slack).any() or (right > given + slack).any():
        return "more labels that look right than there are"
    if (np.abs(scores) > LOG_ODDS_CLIP * given + slack).any():
        return "scores that no labels have"
    return ""


def no_mixture(numbers: Array, samples: int) -> str:
    """Why these six numbers are no mixture as clients fit them: sorted, with weights of sum 1."""
    clean, noisy, *_, first, second = numbers
    if clean > noisy:
        return "the clean component's mean above the noisy one's"
    return "" if abs(first + second - 1) <= 1e-6 else "weights that do not sum to 1"


def _too_much_trust(trusted: Array, samples: int) -> str:
    over = trusted > samples + _slack(samples)
    return f"more than the client's {samples} labels" if over else ""


def _slack(samples: int) -> float:
    """What sums of changes may be off by, from rounding."""
    return 1e-6 * (samples + 1)

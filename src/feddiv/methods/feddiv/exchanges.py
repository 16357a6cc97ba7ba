"""What FedDiv's messages and replies carry: the one place that decides it.

The server fills its messages by it, clients their replies, and what is declared to whoever checks
a reply is read from it too. Everything is a total over a client's samples or a handful of numbers:
nothing is per sample.
"""

from collections.abc import Callable, Mapping

import numpy as np

from feddiv.learning.score import LOG_ODDS_CLIP
from feddiv.methods.common import DIVERGENCE
from feddiv.methods.contract import Declared, Facts, Kind
from feddiv.methods.feddiv.feddiv_options import FedDivOptions
from feddiv.methods.feddiv.filter import BINS
from feddiv.methods.feddiv.second_opinion import TEMPERATURES, least_log_likelihood

TRAINS = ("warmup", "train")  # kinds whose replies bring a model


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
    if kind == "train" and federated and filtering.starved_below > 0:
        entries.append("tally")
    if kind in ("filter", "train") and federated:
        entries.append("mixture" if filtering.aggregate == "mean" else "histogram")
    if kind == "train" and by_trust:
        entries.append("trusted")
    return tuple(entries)


def kinds(options: FedDivOptions, facts: Facts, *, by_trust: bool) -> Mapping[str, Kind]:
    """Every kind of exchange, with shapes and bounds."""
    classes, largest = len(facts.classes), float(max(facts.sizes.values()))
    return {
        kind: Kind(
            reply={
                **(DIVERGENCE if kind in TRAINS else {}),
                **{
                    name: BOUNDS[name](classes, largest)
                    for name in uploads(options, kind, by_trust=by_trust)
                },
            },
            models=("net",) if kind in TRAINS else (),
            message=downloads(options, kind, by_trust=by_trust),
        )
        for kind in ("warmup", *openings(options), "train")
    }


def _softmax(classes: int, largest: float) -> Declared:
    return Declared((classes,), -largest, largest)


def _likelihood(classes: int, largest: float) -> Declared:
    lowest = largest * least_log_likelihood(classes)
    return Declared((len(TEMPERATURES),), lowest, -lowest)


def _tally(classes: int, largest: float) -> Declared:
    swing = 2 * LOG_ODDS_CLIP * largest  # of a sum of scores, from one end to the other
    return Declared((3, classes), -swing, swing)


def _mixture(classes: int, largest: float) -> Declared:
    """Two means, two variances, two weights; one sample, or equal scores, have none."""
    inf, least = np.inf, float(np.finfo(np.float64).tiny)
    low, high = (-inf, -inf, least, least, least, least), (inf, inf, inf, inf, 1.0, 1.0)
    return Declared((6,), low, high, optional=True)


def _histogram(classes: int, largest: float) -> Declared:
    return Declared((BINS,), -largest, largest, optional=True)  # as a mixture


def _trusted(classes: int, largest: float) -> Declared:
    return Declared((), low=0.0, high=largest)


# Shape and bounds of an upload, for a number of classes and the largest client's n_k. Totals are
# uploaded as changes, which may be negative.
BOUNDS: Mapping[str, Callable[[int, float], Declared]] = {
    "softmax": _softmax,
    "likelihood": _likelihood,
    "tally": _tally,
    "mixture": _mixture,
    "histogram": _histogram,
    "trusted": _trusted,
}

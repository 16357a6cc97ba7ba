"""How good an audit of labels is, where the truth of the draw is known."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from feddiv.core.arrays import Array, Mask
from feddiv.learning.quality import Confusion, auroc

FIRST = 100  # labels of the list that somebody looks at
LEAST = 100  # labels of a client whose estimated share is judged
NEAR = 0.05  # how far off an estimated share may be
BINS = 10  # of equal width, in which quality is compared with the share of right labels
RECALLS = np.linspace(0.02, 1.0, 50)  # where the curve of precision is noted


@dataclass(frozen=True)
class Verdict:
    """What an audit says of one client's labels.

    `quality` [n] is low where a label is bad, `flagged` [n] are the issues, `share` is the
    estimated share of wrong labels, from `low` to `high` where the audit has an interval.
    """

    quality: Array
    flagged: Mask
    share: float
    low: float | None = None
    high: float | None = None


def measured(verdicts: Sequence[Verdict], wrong: Sequence[Mask]) -> dict[str, Any]:
    """An audit of all clients against the truth [n] of each, as it stands in a line of results."""
    quality = np.concatenate([each.quality for each in verdicts])
    truth = np.concatenate(wrong)
    flagged = np.concatenate([each.flagged for each in verdicts])
    counts = Confusion.of(flagged, truth)
    by_client = [auroc(v.quality, w) for v, w in zip(verdicts, wrong, strict=True)]
    precision, recall = precisions(quality, truth)
    return {
        **{key: _rounded(value) for key, value in counts.measures().items() if key != "accuracy"},
        "auroc": _rounded(auroc(quality, truth)),
        "auroc_within_clients": _rounded(_mean(by_client)),
        "average_precision": _rounded(average_precision(precision, recall)),
        "first_wrong": _rounded(first_wrong(quality, truth)),
        "brier": _rounded(float(((quality - ~truth) ** 2).mean())),
        "calibration_error": _rounded(calibration_error(quality, truth)),
        "curve": [round(each, 4) for each in curve(precision, recall)],
        "clients": [
            {
                "labels": len(w),
                "wrong": int(w.sum()),
                "share": round(v.share, 4),
                **({} if v.low is None else {"low": round(v.low, 4)}),
                **({} if v.high is None else {"high": round(v.high, 4)}),
            }
            for v, w in zip(verdicts, wrong, strict=True)
        ],
    }


def precisions(quality: Array, wrong: Mask) -> tuple[Array, Array]:
    """Precision and recall of flagging everything up to each quality that occurs, worst first."""
    _, last = np.unique(np.sort(quality)[::-1], return_index=True)
    order = np.argsort(quality, kind="stable")
    found = np.cumsum(wrong[order])
    taken = len(quality) - last  # labels of this quality or worse
    hits = found[taken - 1]
    return hits / taken, hits / max(int(wrong.sum()), 1)


def average_precision(precision: Array, recall: Array) -> float:
    """The mean precision over the wrong labels, each where it is found."""
    return float((precision * np.diff(recall, prepend=0.0)).sum())


def curve(precision: Array, recall: Array) -> list[float]:
    """The precision at each of RECALLS: of the shortest list with that recall."""
    places = np.minimum(np.searchsorted(recall, RECALLS - 1e-12), len(recall) - 1)
    return [float(each) for each in precision[places]]


def first_wrong(quality: Array, wrong: Mask) -> float:
    """The share of wrong labels among the FIRST of one list of all clients' labels."""
    return float(wrong[np.argsort(quality, kind="stable")[:FIRST]].mean())


def calibration_error(quality: Array, wrong: Mask) -> float:
    """How far mean quality and share of right labels differ in a bin, weighed by its labels."""
    places = np.minimum((quality * BINS).astype(np.int64), BINS - 1)
    gaps = np.bincount(places, weights=quality - ~wrong, minlength=BINS)
    return float(np.abs(gaps).sum() / len(quality))


def errors_of_shares(clients: Sequence[dict[str, Any]]) -> list[float]:
    """How far off the estimate is for each client with LEAST labels or more."""
    return [
        abs(client["share"] - client["wrong"] / client["labels"])
        for client in clients
        if client["labels"] >= LEAST
    ]


def held(clients: Sequence[dict[str, Any]]) -> list[bool]:
    """Whether the interval of each such client holds the truth, where there is one."""
    return [
        client["low"] <= client["wrong"] / client["labels"] <= client["high"]
        for client in clients
        if client["labels"] >= LEAST and "low" in client
    ]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)

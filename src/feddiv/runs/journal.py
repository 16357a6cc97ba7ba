"""Lines of a run's journal: one per visit, one per round.

A method's diary may use these keys, which mean the same for all methods: `filter` (counts of a
`Confusion`), `memorised` and `wrong` (wrong given labels that the received model predicts, and
how many there are), `noise_level` and `true_noise_level`, `clean`, `noisy`, `relabelled` and
`corrected` (counts of labels), `reselected` (how many samples each epoch trained on), and `scores`
(`low`, `high` and counts of the filter's scores in as many bins as there are: `right` and `wrong`
labels apart, or `given` ones where the truth is not known).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from feddiv.learning.quality import Confusion
from feddiv.methods.contract import Diary, Reply

Record = dict[str, Any]  # a line of a journal
ENDS = ("low", "high")  # of the range of a histogram


@dataclass(frozen=True)
class Seen:
    """What is kept of one visit until its round is recorded."""

    reply: Reply  # without its weights, which nobody needs after the merge
    diary: dict[str, Any]


def client_line(kind: str, reply: Reply, diary: Diary, norm: float | None = None) -> dict[str, Any]:
    """The line of one visit; `norm` is that of its update as the server measured it."""
    head: Record = {"client": reply.client, "kind": kind, "samples": reply.samples}
    if norm is not None:
        head["update_norm"] = norm
    return {**head, **reply.metrics, **diary}


def round_line(visits: Sequence[Seen]) -> dict[str, Any]:
    """What all visits of a round say together."""
    moved = [v.reply.metrics["divergence"] for v in visits if "divergence" in v.reply.metrics]
    line: dict[str, Any] = {
        "visits": len(visits),
        "divergence": sum(moved) / len(moved) if moved else None,
    }
    diaries = [visit.diary for visit in visits]
    line |= {"filter": _pooled_filter(diaries), "memorisation": _memorisation(diaries)}
    for key in ("clean", "noisy", "relabelled", "corrected"):
        counts = [diary[key] for diary in diaries if key in diary]
        line |= {key: sum(counts)} if counts else {}
    if trained := [diary["reselected"] for diary in diaries if "reselected" in diary]:
        line["reselected"] = sum(epochs[-1] for epochs in trained if epochs)
    if scores := [diary["scores"] for diary in diaries if "scores" in diary]:
        line["scores"] = _pooled_scores(scores)
    return line


def _pooled_scores(histograms: Sequence[Diary]) -> dict[str, Any] | None:
    """Their sum; None where they do not share their bins."""
    first = histograms[0]
    shape = {key: value if key in ENDS else len(value) for key, value in first.items()}
    for each in histograms:
        if shape != {key: value if key in ENDS else len(value) for key, value in each.items()}:
            return None
    sums = {
        key: [sum(counts) for counts in zip(*(each[key] for each in histograms), strict=True)]
        for key in first
        if key not in ENDS
    }
    return {**{key: first[key] for key in ENDS}, **sums}


def _pooled_filter(diaries: Sequence[Diary]) -> dict[str, Any] | None:
    counted = [Confusion(**diary["filter"]) for diary in diaries if "filter" in diary]
    if not counted:
        return None
    total = counted[0]
    for confusion in counted[1:]:
        total = total + confusion
    gaps = [
        abs(diary["noise_level"] - diary["true_noise_level"])
        for diary in diaries
        if "true_noise_level" in diary
    ]
    return {**total.measures(), "noise_level_error": sum(gaps) / len(gaps)}


def _memorisation(diaries: Sequence[Diary]) -> float | None:
    wrong = sum(diary.get("wrong", 0) for diary in diaries)
    return sum(diary.get("memorised", 0) for diary in diaries) / wrong if wrong else None

"""What a page's charts are drawn from: plain values, as few as people can see."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final

import numpy as np

from feddiv.core.terminal import NAME, shown
from feddiv.reports.client_quality import MEASURES, HeldLabels, by_client, clients_of, hardest
from feddiv.reports.confusions import confusions, representative
from feddiv.reports.palette import Style, styles
from feddiv.reports.ranking import Ranking, rankings
from feddiv.reports.record import RunRecord, listed
from feddiv.reports.scores import axis_of, scores_by_round

RANKED: Final = 150_000  # labels on one page, and of one client
RANKED_AT_ONE: Final = (60, 500)
CELLS: Final = 60_000  # of confusion matrices on one page
LINES: Final = 1_500  # rounds on one page: more are thinned evenly
SERIES: Final = (
    "test_accuracy",
    "held_out_accuracy",
    "believed_accuracy",
    "balanced_accuracy",
    "divergence",
    "memorisation",
    "filter.accuracy",
    "filter.precision",
    "filter.recall",
    "filter.f1",
    "filter.noise_level_error",
    "clean",
    "noisy",
    "relabelled",
    "reselected",
    "seconds",
    "evaluation_seconds",
)


def content(records: Sequence[RunRecord]) -> dict[str, Any]:
    """The data of a page of these runs."""
    drawn = styles([record.method for record in records])
    draws = _draws(records)
    opinions = sum("label_quality" in record.assessment for record in records)
    clients = max((len(each["clients"]) for each in draws), default=0)
    least, most = RANKED_AT_ONE
    each = int(np.clip(RANKED // max(opinions * clients, 1), least, most))
    return {
        "draws": [{key: each[key] for key in each if key != "hash"} for each in draws],
        "runs": [
            _run(record, style, draws, each) for record, style in zip(records, drawn, strict=True)
        ],
    }


def _draws(records: Sequence[RunRecord]) -> list[dict[str, Any]]:
    """The draws that the runs were made on, and whom to look at first in each."""
    found: dict[str, dict[str, Any]] = {}
    for record in records:
        if record.draw is None or record.draw.hash in found:
            continue
        held, judged = clients_of(record), by_client(record)
        known = set(confusions(record))
        found[record.draw.hash] = {
            "hash": record.draw.hash,
            "name": record.label,
            "classes": [shown(name, NAME) for name in record.classes],
            "clients": [_client(each) for each in held],
            "hardest": [hardest(held, judged, clean=clean) for clean in (True, False)],
            "representative": representative(held, known),
        }
    return list(found.values())


def _client(held: HeldLabels) -> list[Any]:
    return [held.client, shown(held.name, NAME), held.samples, short(held.wrong)]


def _run(
    record: RunRecord, style: Style, draws: Sequence[dict[str, Any]], most: int
) -> dict[str, Any]:
    hashes = [each["hash"] for each in draws]
    lines = np.unique(
        np.linspace(0, len(record.rounds) - 1, min(LINES, len(record.rounds))).round().astype(int)
    )
    series = {key: record.column(key) for key in SERIES}
    known = {key: _thin(values, lines) for key, values in series.items() if any_known(values)}
    traffic = _sums(record, "bytes_up", "bytes_down")
    passed = _sums(record, "seconds", "evaluation_seconds")
    return {
        "label": shown(record.label, NAME),
        "colour": style.colour,
        "dash": style.dashes,
        "mark": style.mark,
        "draw": None if record.draw is None else hashes.index(record.draw.hash),
        "measure": record.measure,
        "warmup": record.warmup,
        "round": _thin(record.spent, lines),
        "time": _thin(passed, lines),
        "traffic": _thin([count / 1e6 for count in traffic], lines),
        "series": known,
        "end": {
            "best": short(record.accuracy["best"]),
            "best_round": record.best_round,
            "memorisation": short(record.total("memorisation")),
            "per_class": [
                short(value) for value in listed(record.summary.get("per_class_accuracy"))
            ],
        },
        "scores": _scores(record),
        "clients": {
            client: [short(quality.flagged), *(short(getattr(quality, key)) for key in MEASURES)]
            for client, quality in by_client(record).items()
        },
        "ranking": {client: _ranking(each) for client, each in rankings(record, most).items()},
        "labels": _labels(record),
    }


def _scores(record: RunRecord) -> dict[str, Any] | None:
    frames = scores_by_round(record)
    if not frames:
        return None
    return {
        "axis": axis_of(record),
        "frames": [
            {
                "round": each.round,
                "low": each.low,
                "high": each.high,
                "everybody": each.everybody,
                "mixture": None
                if each.mixture is None
                else [short(value) for value in each.mixture.packed()],
                **{kind: [int(count) for count in counts] for kind, counts in each.counts.items()},
            }
            for each in frames
        ],
    }


def _ranking(ranking: Ranking) -> dict[str, Any]:
    """p(clean) in thousandths; wrong labels as a text of ones and zeros."""
    rank = ranking.rank
    whole = len(rank) == ranking.samples
    wrong = ranking.wrong
    return {
        "samples": ranking.samples,
        "rank": None if whole else rank.tolist(),
        "p": np.round(1000 * np.clip(ranking.p_clean, 0, 1)).astype(int).tolist(),
        "wrong": None if wrong is None else "".join("1" if each else "0" for each in wrong),
    }


def _labels(record: RunRecord) -> dict[int, Any]:
    """Confusion matrices: of all clients where they are small, else of representative ones."""
    known = confusions(record)
    sizes = (len(each.given) + len(each.filtered or ()) for each in known.values())
    chosen = set(known)
    if sum(sizes) > CELLS:
        chosen = set(representative(clients_of(record), chosen))
    return {
        client: [each.round, each.given, each.filtered, each.reselected]
        for client, each in known.items()
        if client in chosen
    }


def _sums(record: RunRecord, *keys: str) -> list[float]:
    """Running totals of these columns together."""
    columns = zip(*(record.column(key) for key in keys), strict=True)
    return list(accumulate(sum(value or 0.0 for value in row) for row in columns))


def _thin(values: Sequence[float | None], lines: Any) -> list[float | None]:
    return [short(values[place]) for place in lines]


def any_known(values: Sequence[float | None]) -> bool:
    """Whether there is anything to draw."""
    return any(value is not None for value in values)


def short(value: float | None) -> float | None:
    """A number as exactly as a screen shows it.

    >>> short(0.123456789), short(12), short(None)
    (0.12346, 12, None)
    """
    if value is None:
        return None
    rounded = float(f"{value:.5g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded

"""The filter over the clients' scores, round by round."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from feddiv.core.arrays import Array
from feddiv.learning.gaussian_mixture import Mixture
from feddiv.learning.score import minmax
from feddiv.reports.client_quality import rows_by_client
from feddiv.reports.record import RunRecord, listed, number

BINS: Final = 32
KINDS: Final = ("right", "wrong", "given")
AXES: Final = {
    "log_odds": "log-odds against the given label",
    "cross_entropy": "cross-entropy of the given label",
    "bounded": "bounded cross-entropy of the given label",
}


@dataclass(frozen=True)
class Scores:
    """How many labels have which score, in equal bins from `low` to `high`, and the filter.

    `counts` are of `right` and `wrong` labels or, where the truth is not known, of `given` ones.
    """

    round: float
    low: float
    high: float
    counts: Mapping[str, list[float]]
    mixture: Mixture | None
    everybody: bool = False  # all clients at the end; else those that took part in the round

    @property
    def edges(self) -> Array:
        """Of the bins."""
        bins = len(next(iter(self.counts.values())))
        return np.linspace(self.low, self.high, bins + 1)

    def densities(self, grid: Array) -> Array | None:
        """The filter's clean and noisy component, [2, n], scaled to counts."""
        if self.mixture is None:
            return None
        count = sum(map(sum, self.counts.values()))
        width = (self.high - self.low) / len(next(iter(self.counts.values())))
        return np.asarray(np.exp(self.mixture.log_joint(grid)) * count * width)


def axis_of(record: RunRecord) -> str:
    """What the scores are."""
    score = str(record.setting("method.filter.score"))
    scaled = record.setting("method.filter.scale") == "minmax"
    named = AXES.get(score, "score of the given label")
    return f"{named}, 0 to 1 at each client" if scaled else named


def scores_by_round(record: RunRecord, most: int = 60) -> list[Scores]:
    """Those of so many rounds at most, evenly spread, and at last those of all clients."""
    noted = [each for line in record.rounds if (each := _noted(line)) is not None]
    places = np.unique(np.linspace(0, len(noted) - 1, min(most, len(noted))).round().astype(int))
    chosen = [noted[place] for place in places]
    last = scores_at_the_end(record, chosen[-1] if chosen else None)
    return [*chosen, last] if last is not None else chosen


def scores_at_the_end(record: RunRecord, like: Scores | None = None) -> Scores | None:
    """Those of all clients, in the bins of another; None where the method gives no scores."""
    table = record.assessment
    if "score" not in table or not len(table["score"]):
        return None
    values = np.asarray(table["score"], np.float64)
    if record.setting("method.filter.scale") == "minmax":
        values = values.copy()
        for rows in rows_by_client(table["client"]).values():
            values[rows] = minmax(values[rows])
    if like is None:
        low, high = float(values.min()), float(values.max())
        margin = 0.5 if high - low < 1e-6 else 0.0  # numpy cannot cut a range of rounding errors
        low, high = low - margin, high + margin
    else:
        low, high = like.low, like.high
    truth = table.get("true_label")
    wrong = None if truth is None else table["given_label"] != truth
    groups = {"given": values}
    if wrong is not None:
        groups = {"right": values[~wrong], "wrong": values[wrong]}
    counts = {
        kind: np.histogram(np.clip(group, low, high), bins=BINS, range=(low, high))[0].tolist()
        for kind, group in groups.items()
    }
    spent = record.spent[-1] if record.spent else 0.0
    mixture = _mixture(record.rounds[-1]) if record.rounds else None
    return Scores(spent, low, high, counts, mixture, everybody=True)


def _noted(line: Mapping[str, Any]) -> Scores | None:
    """What a line of rounds.jsonl tells; None where it tells nothing that can be drawn."""
    noted = line.get("scores")
    if not isinstance(noted, Mapping):
        return None
    low, high = number(noted.get("low")), number(noted.get("high"))
    found = {kind: listed(noted[kind]) for kind in KINDS if kind in noted}
    counts = {kind: [each or 0.0 for each in values] for kind, values in found.items()}
    lengths = {len(values) for values in counts.values()}
    if low is None or high is None or not low < high or len(lengths) != 1 or 0 in lengths:
        return None
    return Scores(number(line.get("round")) or 0.0, low, high, counts, _mixture(line))


def _mixture(line: Mapping[str, Any]) -> Mixture | None:
    numbers = [each for each in listed(line.get("mixture")) if each is not None]
    if len(numbers) != 6 or min(numbers[2:]) <= 0:
        return None
    return Mixture.unpacked(np.array(numbers, np.float64))

"""How many labels are wrong, how sure that is, and which ones: three answers that agree.

The quality of a label is a p(clean) whose sum can be believed: the method's second opinion where
it has one (`methods/feddiv/second_opinion.py`), else what it decides by. Then the expected number
of wrong labels is the sum of 1 - quality, the issues are that many labels, the worst ones, and the
precision to expect of the k worst is the mean of their 1 - quality.

The filter and the second opinion err in different ways, so that half of the gap between their
shares is a measure of how far both may be off. With it and with what chance does to labels of
these qualities, 95 intervals of 100 hold the truth (docs/audit.md has the numbers).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from feddiv.core.arrays import Array, Mask, Rows
from feddiv.methods.contract import Assessment

SIGMAS = 1.96  # of a normal distribution: 95 %
LEAST = 0.005  # of the deviation: no share of wrong labels is known better than that
SURE = 0.95  # expected precision of labels that are almost surely wrong


@dataclass(frozen=True)
class Estimate:
    """The share of wrong labels; `low` and `high` are None where nobody knows how sure it is."""

    share: float
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, quality: Array, rival: Array | None = None) -> "Estimate":
        """From qualities [n], and the p(clean) [n] of somebody who judges in another way."""
        if not len(quality):
            return cls(0.0)
        share = float((1 - quality).mean())
        if rival is None:
            return cls(share)
        chance = float((quality * (1 - quality)).sum()) / len(quality) ** 2
        gap = float((1 - rival).mean()) - share
        wide = SIGMAS * float(np.sqrt(chance + LEAST**2 + (gap / 2) ** 2))
        return cls(share, max(share - wide, 0.0), min(share + wide, 1.0))


@dataclass(frozen=True, eq=False)
class Judged:
    """Qualities [n] of one site's labels, and what follows from them.

    Of labels that are equally bad, those come first for which the model is `confident` of another.
    """

    quality: Array
    estimate: Estimate
    confident: Array | None = None

    @classmethod
    def of(cls, opinion: Assessment) -> "Judged | None":
        """None where the method has no opinion."""
        first, second = opinion.p_clean, opinion.second_opinion
        if first is None:
            return None
        if second is None:
            return cls(first, Estimate.of(first), opinion.confidence)
        return cls(second, Estimate.of(second, first), opinion.confidence)

    @cached_property
    def ranking(self) -> Rows:
        """Numbers of the labels, the worst first."""
        if self.confident is None:
            return np.argsort(self.quality, kind="stable")
        return np.lexsort((-self.confident, self.quality))

    @property
    def count(self) -> int:
        """How many labels are issues: as many as are expected to be wrong."""
        return round(float((1 - self.quality).sum()))

    @property
    def issues(self) -> Mask:
        """Which labels [n] are issues: the worst ones."""
        mask = np.zeros(len(self.quality), np.bool_)
        mask[self.ranking[: self.count]] = True
        return mask

    def precision(self, worst: int) -> float:
        """The share of wrong labels to expect among so many of the worst."""
        chosen = self.quality[self.ranking[:worst]]
        return float((1 - chosen).mean()) if len(chosen) else 0.0

    @property
    def almost_sure(self) -> int:
        """How many of the worst are wrong but for one in twenty, at most as many as are issues."""
        errors = np.cumsum(self.quality[self.ranking[: self.count]])
        held = errors <= (1 - SURE) * np.arange(1, len(errors) + 1)
        return int(np.flatnonzero(held)[-1]) + 1 if held.any() else 0

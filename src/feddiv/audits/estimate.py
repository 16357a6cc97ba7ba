"""How many labels are wrong, how sure that is, and which ones: three answers that agree.

A method may have two opinions of a label: the p(clean) that it decides by, and a second one that
was found in another way (`methods/feddiv/second_opinion.py`). Where the model is weak they err in
different directions, and their mean is better than either. Where the first leaves little in doubt
it is right, while the second may still find excuses for wrong labels. So the quality of a label is
a mean of both, in which the first counts the more the less ambiguous it is; the second alone counts
where the filter saw no noise at all, as few wrong labels among many sure ones look. The expected
number of wrong labels is the sum of 1 - quality, the issues are that many labels, the worst ones,
and the precision to expect of the k worst is the mean of their 1 - quality.

Three things make the interval: what chance does to labels of these qualities; half of the gap
between the shares that the two opinions find; and how far both may be off together, as they are two
readings of one model, which believes some of the wrong labels that it was trained on. Nothing in
the data shows the last one, and it is largest where right and wrong labels are mixed. How often
the interval holds the truth is in docs/results.md.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from feddiv.core.arrays import Array, Mask, Rows
from feddiv.methods.contract import Assessment

SIGMAS = 1.96  # of a normal distribution: 95 %
LEAST = 0.005  # of the deviation: no share of wrong labels is known better than that
# Deviation of what both opinions have wrong, for each unit of share * (1 - share): the least with
# which the intervals of 95 of 100 clients held the truth (`cifar10-features-iid-0.8-0.5`, seed 0).
TOGETHER = 0.14
# Weight of the first opinion: this much at least, this much more where nothing is ambiguous, and
# how ambiguous it has to be to lose most of that.
SHARED, EARNED, AMBIGUOUS = 0.5, 0.4, 0.05
SURE = 0.97  # expected precision of labels that are almost surely wrong


@dataclass(frozen=True)
class Estimate:
    """The share of wrong labels; `low` and `high` are None where nobody knows how sure it is."""

    share: float
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, quality: Array, gap: float | None = None) -> "Estimate":
        """From qualities [n], and how far apart the shares are that two opinions find."""
        if not len(quality):
            return cls(0.0)
        share = float((1 - quality).mean())
        if gap is None:
            return cls(share)
        chance = float((quality * (1 - quality)).sum()) / len(quality) ** 2
        together = TOGETHER * share * (1 - share)
        wide = SIGMAS * float(np.sqrt(chance + LEAST**2 + (gap / 2) ** 2 + together**2))
        return cls(share, max(share - wide, 0.0), min(share + wide, 1.0))


def mixed(first: Array, second: Array) -> Array:
    """The mean of two p(clean) [n]; ambiguity is 0 where the first knows, 1 where it does not.

    A first opinion that believes every label found no two kinds of them: it has nothing to say.
    """
    if (first == 1).all():
        return second
    ambiguity = 4 * float((first * (1 - first)).mean()) if len(first) else 0.0
    weight = SHARED + EARNED * float(np.exp(-ambiguity / AMBIGUOUS))
    return np.asarray(weight * first + (1 - weight) * second)


@dataclass(frozen=True, eq=False)
class Judged:
    """Qualities [n] of one site's labels, and what follows from them.

    Of labels that are equally bad, those come first for which the model is `confident` of another.
    """

    quality: Array
    estimate: Estimate
    confident: Array | None = None

    @classmethod
    def of(cls, opinion: Assessment, trusted: Mask | None = None) -> "Judged | None":
        """None where the method has no opinion; labels that are `trusted` are right."""
        first, second = opinion.p_clean, opinion.second_opinion
        if first is None:
            return None
        if second is None:
            first = first if trusted is None else np.where(trusted, 1.0, first)
            return cls(first, Estimate.of(first), opinion.confidence)
        quality = mixed(first, second)
        quality = quality if trusted is None else np.where(trusted, 1.0, quality)
        gap = float((first - second).mean()) if len(quality) else 0.0
        return cls(quality, Estimate.of(quality, gap), opinion.confidence)

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
        """How many of the worst have the precision SURE, at most as many as are issues."""
        errors = np.cumsum(self.quality[self.ranking[: self.count]])
        held = errors <= (1 - SURE) * np.arange(1, len(errors) + 1)
        return int(np.flatnonzero(held)[-1]) + 1 if held.any() else 0

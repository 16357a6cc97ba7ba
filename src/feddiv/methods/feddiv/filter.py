"""The federated noise filter: what a clean and a wrong label look like, learnt by all clients."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from feddiv.core.arrays import Array
from feddiv.core.options import Options
from feddiv.learning.gaussian_mixture import Mixture, first_start, fit_mixture, own_weights
from feddiv.learning.robust import CentreRule, capped_sizes
from feddiv.learning.score import ScoreName, minmax, score_range
from feddiv.methods.feddiv.second_opinion import with_second_opinion

BINS = 64
SAMPLE_FLOOR = 1e-6  # of the squared range
SAMPLE_TOLERANCE, BIN_TOLERANCE = 1e-3, 1e-6
WRITTEN_ONCE = {"centre": "mean", "trim": 0.3}
OWN_WEIGHT_FLOOR, WEIGHT_FLOOR = 0.02, 1e-3


class FilterOptions(Options):
    """How labels are scored, how the mixture is learnt together, and how it decides."""

    score: ScoreName = "log_odds"  # how suspicious a given label is
    # minmax: each client's scores are scaled to 0..1; absolute: left as they are.
    scale: Literal["minmax", "absolute"] = "absolute"
    # By which mean prediction logits are de-biased: the client's own, or that over all clients.
    debias: Literal["none", "local", "global"] = "global"
    # mean: of the parameters of clients' mixtures; histogram: one fit to their pooled scores.
    aggregate: Literal["mean", "histogram"] = "histogram"
    members: Literal["seen", "round"] = "seen"  # clients that count: all seen, or this round's
    # One filter for all, one for each client, or the true labels instead of a filter.
    scope: Literal["federated", "local", "perfect"] = "federated"
    # To scores of the model that the client has trained, or of the model that it received.
    fit: Literal["local", "global"] = "global"
    prior: Literal["shared", "own"] = "own"  # share of wrong labels: of all, or the client's own
    # Nothing is dropped where even the noisy component's mean is below even odds.
    no_noise_rule: bool = True
    monotone: bool = True  # a higher score never makes a label more trusted
    variance_weights: Literal["linear", "squared"] = "linear"  # of clients, with aggregate=mean
    em_steps: int = Field(0, ge=0, le=10_000)  # 0: until it converges
    # Least deviation of a component that is fitted to a histogram, as a share of its range. Scores
    # of a strong model pile up at the ends, where a narrow component would see nothing else.
    least_deviation: float = Field(0.01, gt=0, le=1)
    # Labels with a smaller p(clean) look wrong and do not train. With `sure` that is one half, and
    # with scope=federated the least sure of the others do not train either.
    drop_below: Annotated[float, Field(gt=0, lt=1)] | Literal["sure"] = "sure"
    # With drop_below=sure: labels train, the surest first, as long as at most this share of a
    # client's is expected to be wrong.
    most_wrong: float = Field(0.02, ge=0, le=0.5)
    # With drop_below=sure: so many labels of a class train over all clients, however unsure.
    enough: int = Field(300, ge=0, le=1_000_000_000)
    # A client of which at most this share is dropped counts as clean and trains on everything.
    clean_client_below: float = Field(0.1, ge=0, le=1)
    # By the model's own odds, or by its odds at a temperature that all clients find together.
    second_opinion: bool | Literal["calibrated"] = "calibrated"
    # A class is starved if less than this, relative to the average, is kept; 0: no pardons.
    starved_below: float = Field(0.1, ge=0, le=1)
    # Whether clients whose scores are all equal have a histogram too; a fit needs none of them.
    count_equal: bool = False

    @model_validator(mode="before")
    @classmethod
    def _without_centre(cls, tree: object) -> object:
        """Runs begun on 2026-11-18 have written down two keys that never left these values."""
        if not isinstance(tree, Mapping):
            return tree
        return {key: value for key, value in tree.items() if WRITTEN_ONCE.get(key) != value}

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.aggregate == "histogram":
            if self.scale == "absolute" and self.score == "cross_entropy":
                raise ValueError(
                    "aggregate=histogram needs a common range: cross_entropy has none unscaled; "
                    "use scale=minmax, or score=bounded or log_odds"
                )
            if self.variance_weights == "squared":
                raise ValueError("variance_weights=squared is for aggregate=mean only")
        bounded = self.scale == "absolute" and self.score != "cross_entropy"
        if self.starved_below > 0 and not bounded:
            raise ValueError(
                "starved_below compares scores between clients: it needs scale=absolute and "
                "score=bounded or log_odds; or set it to 0"
            )
        if self.count_equal and (self.aggregate, self.scale) != ("histogram", "absolute"):
            raise ValueError("count_equal is for aggregate=histogram and scale=absolute only")
        if (self.score, self.scale) != ("log_odds", "absolute"):
            for name in ("no_noise_rule", "second_opinion"):
                if getattr(self, name):
                    raise ValueError(
                        f"{name} takes scores for odds: it needs score=log_odds and "
                        "scale=absolute; or set it to false"
                    )
        return self

    @property
    def choosy(self) -> bool:
        """Whether labels that look right may be left out because they are not sure."""
        return self.drop_below == "sure"

    @property
    def right_from(self) -> float:
        """The p(clean) from which on a label looks right."""
        return 0.5 if self.drop_below == "sure" else self.drop_below

    @property
    def tallied(self) -> bool:
        """Whether the server has to know how many labels of each class there are and look right."""
        return self.choosy or self.starved_below > 0

    @property
    def calibrated(self) -> bool:
        """Whether the second opinion is that of a calibrated model."""
        return self.second_opinion == "calibrated"

    @property
    def fits_local_scores(self) -> bool:
        """Whether the scores of the trained local model are needed."""
        return self.fit == "local" and self.scope != "perfect"


@dataclass(frozen=True)
class NoiseFilter:
    """A federated noise filter, usable alone on per-client arrays of scores.

    Scores are log-odds against the given label by default: `feddiv.label_scores(logits, labels,
    "log_odds")`; any score that is high for doubtful labels will do with other options. With
    `classes`, the model's own odds are asked for a second opinion (see `second_opinion.py`).

    Examples:
        Two clients, the second with two wrong labels.

        >>> import numpy as np
        >>> clients = [np.array([-6.0, -5.0, -5.5, -4.0]), np.array([-5.0, 4.0, -6.0, 5.0])]
        >>> noise_filter = NoiseFilter(classes=10).fit(clients)
        >>> (noise_filter.p_clean(clients[1]) >= 0.5).tolist()
        [True, False, True, False]
    """

    options: FilterOptions = field(default_factory=FilterOptions)
    classes: int | None = None  # how many; without it there is no second opinion
    mixture: Mixture | None = None
    centre: CentreRule = field(default_factory=CentreRule)  # of clients' mixtures, at the server

    def fit(self, clients: Sequence[Array]) -> "NoiseFilter":
        """The filter that these clients, one array of raw scores each, learn together."""
        if isinstance(clients, np.ndarray) and clients.ndim < 2:
            raise ValueError("give one array of scores per client, as a list")
        scaled = [self.scale(np.asarray(scores, np.float64)) for scores in clients]
        summaries = [self.summarise(scores) for scores in scaled]
        if self.options.aggregate == "histogram":
            counts = np.sum([np.zeros(BINS), *(s for s in summaries if s is not None)], axis=0)
            return self.from_histogram(counts)
        kept = [(s, len(c)) for s, c in zip(summaries, scaled, strict=True) if s is not None]
        return self.from_mixtures(np.array([s for s, _ in kept]), np.array([n for _, n in kept]))

    def scale(self, scores: Array) -> Array:
        """Scores as the filter sees them: refused if not finite, min-max scaled if asked for."""
        if not np.isfinite(scores).all():
            raise ValueError("scores must be finite: got NaN or infinity")
        return minmax(scores) if self.options.scale == "minmax" else scores

    def bounds(self, scores: Array | None = None) -> tuple[float, float]:
        """The range of scaled scores; of these scores where the score has no common range."""
        if self.options.scale == "minmax":
            return 0.0, 1.0
        if self.options.score == "bounded" and self.classes is None:
            raise ValueError("score=bounded: its range depends on `classes`, give it")
        common = score_range(self.options.score, self.classes or 0)
        if common is not None:
            return common
        if scores is None:
            raise ValueError("this score has no common range: give the scores")
        return float(scores.min()), float(scores.max())

    def summarise(self, scores: Array) -> Array | None:
        """What a client uploads of its scaled scores: 6 numbers, or a histogram of 64 counts.

        None where there is nothing to learn from: fewer than two samples or, but for
        `count_equal`, all scores equal.
        """
        equal = scores.min() == scores.max() if len(scores) else True
        if len(scores) < 2 or (equal and not self.options.count_equal):
            return None
        if self.options.aggregate == "histogram":
            low, high = self.bounds()
            inside = np.clip(scores, low, high)
            return np.histogram(inside, bins=BINS, range=(low, high))[0].astype(np.float64)
        low, high = self.bounds(scores)
        mixture = fit_mixture(
            scores,
            self.mixture or first_start(low, high),
            variance_floor=SAMPLE_FLOOR * (high - low) ** 2,
            weight_floor=WEIGHT_FLOOR,
            tolerance=SAMPLE_TOLERANCE,
            steps=self.options.em_steps,
        )
        return mixture.packed()

    def from_mixtures(self, mixtures: Array, sizes: npt.NDArray[np.generic]) -> "NoiseFilter":
        """Server, `mean`: the n_k-weighted mean of parameters [K, 6] (Eq. 5)."""
        if not len(mixtures):
            return self
        if self.centre.robust:
            return replace(self, mixture=self._robust(mixtures, np.asarray(sizes, np.float64)))
        share = np.asarray(sizes, np.float64) / np.asarray(sizes, np.float64).sum()
        squared = self.options.variance_weights == "squared"
        mixture = Mixture(
            means=share @ mixtures[:, 0:2],
            variances=(share**2 if squared else share) @ mixtures[:, 2:4],
            weights=share @ mixtures[:, 4:6],
        )
        return replace(self, mixture=mixture)

    def _robust(self, mixtures: Array, sizes: Array) -> Mixture:
        """The same by a median or trimmed mean of each parameter, with n_k capped.

        Every client's means are in order, so those of all are; weights are made to sum to 1.
        """
        counts = capped_sizes(sizes)
        centre = self.centre.of(mixtures, counts)
        share = counts / counts.sum()
        scale = (share**2).sum() if self.options.variance_weights == "squared" else 1.0
        return Mixture(centre[0:2], scale * centre[2:4], centre[4:6] / centre[4:6].sum())

    def from_histogram(self, counts: Array) -> "NoiseFilter":
        """Server, `histogram`: the mixture of the pooled scores, from scratch to convergence."""
        if counts.sum() < 2:
            return self
        low, high = self.bounds()
        width = (high - low) / BINS
        mixture = fit_mixture(
            np.asarray(low + width * (np.arange(BINS) + 0.5), np.float64),
            first_start(low, high),
            counts=counts,
            variance_floor=(self.options.least_deviation * (high - low)) ** 2,
            weight_floor=OWN_WEIGHT_FLOOR,
            tolerance=BIN_TOLERANCE,
            steps=self.options.em_steps,
        )
        return replace(self, mixture=mixture)

    @property
    def sees_no_noise(self) -> bool:
        """The no-noise rule: even the noisy component believes its labels."""
        return self.options.no_noise_rule and self.mixture is not None and self.mixture.means[1] < 0

    def p_clean(self, scores: Array, sharpened: Array | None = None) -> Array:
        """Probability [n] that each label of one client is right, from that client's raw scores.

        `sharpened` are log-odds of a calibrated model for the second opinion to look at.
        """
        scores = self.scale(np.asarray(scores, np.float64))
        degenerate = self.options.scale == "minmax" and (scores == 0.5).all()
        if self.mixture is None:
            raise ValueError("this filter has learnt nothing yet: fit it on clients' scores first")
        if self.sees_no_noise or degenerate:
            return np.ones_like(scores)
        mixture = self.mixture
        if self.options.prior == "own":
            mixture = own_weights(scores, mixture, weight_floor=OWN_WEIGHT_FLOOR)
        p_clean = mixture.p_clean(scores, monotone=self.options.monotone)
        if self.options.second_opinion and self.classes is not None:
            own = scores if sharpened is None else sharpened
            return with_second_opinion(p_clean, own, self.classes)
        return p_clean

"""A two-component Gaussian mixture in one dimension, fitted by expectation-maximisation.

Component 0 is the clean one (smaller mean), component 1 the noisy one. All in float64.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from feddiv.core.arrays import Array

BELOW_HALF = float(np.nextafter(0.5, 0.0))


@dataclass(frozen=True)
class Mixture:
    """Means, variances and mixing weights of the two components, arrays of shape [2]."""

    means: Array
    variances: Array
    weights: Array

    @classmethod
    def unpacked(cls, numbers: Array) -> "Mixture":
        """From the six numbers that cross the network."""
        return cls(numbers[0:2], numbers[2:4], numbers[4:6])

    def packed(self) -> Array:
        """The six numbers that cross the network: means, variances, weights."""
        return np.concatenate([self.means, self.variances, self.weights])

    def log_joint(self, values: Array) -> Array:
        """Log of weight times density, [2, n]."""
        deviation = values[None, :] - self.means[:, None]
        variances = self.variances[:, None]
        log_density = -0.5 * (np.log(2 * np.pi * variances) + deviation**2 / variances)
        return np.log(self.weights)[:, None] + log_density

    def p_clean(self, values: Array, *, monotone: bool = False) -> Array:
        """Posterior of the clean component, p(clean) [n] (Eq. 6).

        When the variances differ, a Gaussian posterior turns round in one tail. `monotone` holds
        it at its turning point, keeps it at least 1/2 below the clean mean and below 1/2 above
        the noisy one, so that a higher score never means a cleaner label.
        """
        held = self._held_at_turning_point(values) if monotone else values
        clean, noisy = self.log_joint(held)
        posterior = sigmoid(clean - noisy)
        if monotone:
            posterior = np.where(values <= self.means[0], np.maximum(posterior, 0.5), posterior)
            above = values >= self.means[1]
            posterior = np.where(above, np.minimum(posterior, BELOW_HALF), posterior)
        return posterior

    def _held_at_turning_point(self, values: Array) -> Array:
        clean, noisy = 1 / self.variances
        if clean == noisy:
            return values
        turn = (self.means[0] * clean - self.means[1] * noisy) / (clean - noisy)
        bound = np.maximum if clean > noisy else np.minimum
        return np.asarray(bound(values, turn))


def first_start(low: float, high: float) -> Mixture:
    """Where EM starts when nothing is known: means at .2 and .8 of the range of the scores."""
    span = high - low
    return Mixture(
        means=np.array([low + 0.2 * span, low + 0.8 * span]),
        variances=np.full(2, 0.05 * span**2),
        weights=np.full(2, 0.5),
    )


def two_means_start(values: Array, *, variance_floor: float = 1e-6) -> Mixture | None:
    """Where EM starts when nothing is known but the values: the best division in two groups.

    Published mixtures start from k-means. In one dimension two groups are a cut through the sorted
    values, so the best one is found by trying all of them, without a draw. None where all values
    are equal.
    """
    ordered = np.sort(values)
    gaps = np.diff(ordered) > 0
    if not gaps.any():
        return None
    below = np.arange(1, len(ordered))
    sums = np.cumsum(ordered - ordered.mean())[:-1]
    between = sums**2 * (1 / below + 1 / (len(ordered) - below))  # what the cut explains
    cut = int(np.where(gaps, between, -1.0).argmax()) + 1
    groups = ordered[:cut], ordered[cut:]
    return Mixture(
        means=np.array([group.mean() for group in groups]),
        variances=np.array([max(group.var(), variance_floor) for group in groups]),
        weights=np.array([cut / len(ordered), 1 - cut / len(ordered)]),
    )


def fit_mixture(
    values: Array,
    start: Mixture,
    *,
    counts: Array | None = None,
    variance_floor: float = 1e-6,
    weight_floor: float = 1e-3,
    tolerance: float = 1e-3,
    steps: int = 0,
) -> Mixture:
    """EM from `start` over values [n], each counting `counts` [n] times (once by default).

    `steps` = 0 runs until the mean log-likelihood moves by less than `tolerance`, 100 steps at
    most; otherwise exactly that many. A component that has lost its mass keeps its mean and
    variance and the smallest allowed weight. The result is sorted by mean.
    """
    if not np.isfinite(values).all():
        raise ValueError("scores must be finite: got NaN or infinity")
    mass = np.ones_like(values) if counts is None else counts
    total = mass.sum()
    if total <= 0:
        raise ValueError("a mixture needs at least one value: got none")
    mixture, previous = start, -np.inf
    for _ in range(steps or 100):
        posterior, log_evidence = e_step(mixture, values)
        likelihood = float((mass * log_evidence).sum() / total)
        if not steps and abs(likelihood - previous) < tolerance:
            break
        previous = likelihood
        mixture = m_step(values, mass * posterior, mixture, variance_floor, weight_floor)
    return _sorted(mixture)


def e_step(mixture: Mixture, values: Array) -> tuple[Array, Array]:
    """Posterior gamma of both components [2, n] (Eq. 3), and the log-evidence of values [n]."""
    log_joint = mixture.log_joint(values)
    log_evidence = np.logaddexp(log_joint[0], log_joint[1])
    return np.exp(log_joint - log_evidence), log_evidence


def larger_component(values: Array) -> npt.NDArray[np.bool_]:
    """Which values [n] belong to the component of larger mean of two; none where all are equal."""
    start = two_means_start(values)
    if start is None:
        return np.zeros(len(values), dtype=bool)
    return np.asarray(fit_mixture(values, start).p_clean(values) < 0.5)


def m_step(
    values: Array,
    responsibility: Array,
    before: Mixture,
    variance_floor: float,
    weight_floor: float,
) -> Mixture:
    """The mixture that explains values [n] best, given how much of each every component has."""
    component_mass = responsibility.sum(axis=1)
    alive = component_mass > 1e-8 * component_mass.sum()
    divisor = np.where(alive, component_mass, 1.0)
    means = np.where(alive, responsibility @ values / divisor, before.means)
    spread = (responsibility * (values[None, :] - means[:, None]) ** 2).sum(axis=1) / divisor
    variances = np.where(alive, np.maximum(spread, variance_floor), before.variances)
    clean = np.clip(component_mass[0] / component_mass.sum(), weight_floor, 1 - weight_floor)
    return Mixture(means, variances, np.array([clean, 1 - clean]))


def _sorted(mixture: Mixture) -> Mixture:
    order = np.argsort(mixture.means, kind="stable")
    return Mixture(mixture.means[order], mixture.variances[order], mixture.weights[order])


def own_weights(
    values: Array, mixture: Mixture, *, steps: int = 50, weight_floor: float = 0.02
) -> Mixture:
    """The shared densities with the mixing weight that suits these values (EM on the weight alone).

    Noise rates differ between clients while what a wrong label looks like does not: each client
    keeps the shared components and finds its own share of noise.
    """
    log_density = mixture.log_joint(values) - np.log(mixture.weights)[:, None]
    clean = float(np.clip(mixture.weights[0], weight_floor, 1 - weight_floor))
    for _ in range(steps if len(values) else 0):
        odds = np.log(clean) - np.log1p(-clean) + log_density[0] - log_density[1]
        clean = float(np.clip(sigmoid(odds).mean(), weight_floor, 1 - weight_floor))
    return Mixture(mixture.means, mixture.variances, np.array([clean, 1 - clean]))


def sigmoid(odds: Array) -> Array:
    """Probability of log-odds, without overflow."""
    return np.asarray(np.exp(-np.logaddexp(0.0, -odds)))

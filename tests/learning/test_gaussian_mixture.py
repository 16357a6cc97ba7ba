import warnings

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from feddiv.learning.gaussian_mixture import (
    Mixture,
    first_start,
    fit_mixture,
    larger_component,
    own_weights,
    two_means_start,
)

A = np.log(3) / 2  # under UNIT the odds of `clean` are exp(-2x): 3 at -A, 1 at 0, 1/3 at A


def mixture(means: tuple, variances: tuple, weights: tuple = (0.5, 0.5)) -> Mixture:
    return Mixture(np.array(means, float), np.array(variances, float), np.array(weights, float))


def parameters(found: Mixture) -> np.ndarray:
    return np.concatenate([found.means, found.variances, found.weights])


UNIT = mixture((-1, 1), (1, 1))


def two_groups(seed: int, samples: int = 300) -> np.ndarray:
    rng = np.random.default_rng(seed)
    noisy = rng.random(samples) < 0.3
    return np.where(noisy, rng.normal(0.7, 0.12, samples), rng.normal(0.2, 0.08, samples))


# EM


def by_scikit_learn(values: np.ndarray, start: Mixture, steps: int, tolerance: float) -> Mixture:
    """The same start, no regularisation, and either an exact number of steps or a tolerance."""
    model = GaussianMixture(
        2,
        covariance_type="full",
        means_init=start.means[:, None],
        precisions_init=1 / start.variances[:, None, None],
        weights_init=start.weights,
        reg_covar=0,
        max_iter=steps,
        tol=tolerance,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(values[:, None])
    order = np.argsort(model.means_[:, 0])
    return Mixture(model.means_[order, 0], model.covariances_[order, 0, 0], model.weights_[order])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("steps", [1, 3, 20])
def test_em_is_that_of_scikit_learn_step_by_step(seed: int, steps: int) -> None:
    values, start = two_groups(seed), first_start(0, 1)
    ours = fit_mixture(values, start, steps=steps, variance_floor=0, weight_floor=0)
    theirs = by_scikit_learn(values, start, steps, tolerance=0)
    np.testing.assert_allclose(parameters(ours), parameters(theirs), rtol=0, atol=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_em_ends_where_scikit_learn_ends(seed: int) -> None:
    values, start = two_groups(seed), first_start(0, 1)
    ours = fit_mixture(values, start, tolerance=1e-14)
    theirs = by_scikit_learn(values, start, 100, tolerance=1e-14)
    np.testing.assert_allclose(parameters(ours), parameters(theirs), rtol=0, atol=1e-6)


def test_one_step_by_hand() -> None:
    # Weights 3:1 and unit variances: the odds of `clean` are 3 exp(-2x), so 3 at 0 and 1/3 at 2A.
    # Responsibilities of `clean` for (0, 0, 2A): 3/4, 3/4, 1/4; of `noisy`: 1/4, 1/4, 3/4.
    # clean: mass 7/4, mean (2A/4) / (7/4) = 2A/7, variance 4A²/7 - (2A/7)² = 24 A²/49
    # noisy: mass 5/4, mean (6A/4) / (5/4) = 6A/5, variance 12A²/5 - (6A/5)² = 24 A²/25
    found = fit_mixture(np.array([0, 0, 2 * A]), mixture((-1, 1), (1, 1), (0.75, 0.25)), steps=1)
    assert found.means == pytest.approx([2 * A / 7, 6 * A / 5])
    assert found.variances == pytest.approx([24 * A**2 / 49, 24 * A**2 / 25])
    assert found.weights == pytest.approx([7 / 12, 5 / 12])


def test_exactly_as_many_steps_as_asked_for() -> None:
    values = two_groups(0)
    one_by_one = first_start(0, 1)
    for _ in range(3):
        one_by_one = fit_mixture(values, one_by_one, steps=1)
    assert np.array_equal(
        parameters(fit_mixture(values, first_start(0, 1), steps=3)), parameters(one_by_one)
    )


def test_to_convergence_is_a_hundred_steps_at_most_and_one_at_least() -> None:
    values, start = two_groups(0), first_start(0, 1)
    fitted = {steps: parameters(fit_mixture(values, start, steps=steps)) for steps in (1, 100)}
    assert np.array_equal(parameters(fit_mixture(values, start, tolerance=0.0)), fitted[100])
    assert np.array_equal(parameters(fit_mixture(values, start, tolerance=np.inf)), fitted[1])


def test_stops_when_the_mean_log_likelihood_stands_still() -> None:
    values, start = two_groups(0), first_start(0, 1)

    def likelihood(steps: int) -> float:
        joint = fit_mixture(values, start, steps=steps).log_joint(values)
        return float(np.logaddexp(*joint).mean())

    stop = next(n for n in range(1, 100) if abs(likelihood(n + 1) - likelihood(n)) < 1e-3)
    found = fit_mixture(values, start, tolerance=1e-3)
    # The change that is too small is that of the last step taken.
    assert np.array_equal(parameters(found), parameters(fit_mixture(values, start, steps=stop + 1)))


@pytest.mark.parametrize("seed", range(3))
def test_counts_stand_for_repeated_samples(seed: int) -> None:
    rng = np.random.default_rng(seed)
    centres = (np.arange(64) + 0.5) / 64
    counts = np.histogram(two_groups(seed), bins=64, range=(0, 1))[0].astype(float)
    weighted = fit_mixture(centres, first_start(0, 1), counts=counts, steps=30)
    repeated = rng.permutation(np.repeat(centres, counts.astype(int)))
    pooled = fit_mixture(repeated, first_start(0, 1), steps=30)
    np.testing.assert_allclose(parameters(weighted), parameters(pooled), rtol=0, atol=1e-12)


def test_components_come_sorted_by_mean() -> None:
    values = np.array([0.1, 0.2, 0.15, 0.8, 0.9])
    found = fit_mixture(values, mixture((0.8, 0.2), (0.05, 0.02), (0.7, 0.3)), tolerance=1e-9)
    assert found.means == pytest.approx([0.15, 0.85], abs=1e-3)
    assert found.weights == pytest.approx([3 / 5, 2 / 5], abs=1e-3)


def test_first_start() -> None:
    start = first_start(-8, 8)
    assert start.means == pytest.approx([-4.8, 4.8])
    assert start.variances == pytest.approx([12.8, 12.8])
    assert start.weights == pytest.approx([0.5, 0.5])


# The start from two means


def test_two_means_by_hand() -> None:
    # Cut after 0, 1, 2: their squares add up to 2, those of 8 and 10 to 2. No other cut has 4.
    start = two_means_start(np.array([8.0, 0, 2, 10, 1]))
    assert start is not None
    assert start.means == pytest.approx([1, 9])
    assert start.variances == pytest.approx([2 / 3, 1])
    assert start.weights == pytest.approx([0.6, 0.4])


def test_two_means_keep_equal_values_together_and_variances_off_zero() -> None:
    start = two_means_start(np.array([1.0, 3, 1, 3, 3]), variance_floor=0.25)
    assert start is not None
    assert start.means == pytest.approx([1, 3])
    assert start.variances == pytest.approx([0.25, 0.25])
    assert start.weights == pytest.approx([0.4, 0.6])


@pytest.mark.parametrize("values", [[], [2.0], [2.0, 2.0, 2.0]])
def test_nothing_to_divide(values: list[float]) -> None:
    assert two_means_start(np.array(values)) is None
    assert larger_component(np.array(values)).tolist() == [False] * len(values)


@pytest.mark.parametrize("seed", range(5))
def test_from_two_means_em_ends_where_scikit_learn_ends_by_default(seed: int) -> None:
    values = two_groups(seed)
    start = two_means_start(values)
    assert start is not None
    model = GaussianMixture(2, random_state=seed).fit(values[:, None])
    order = np.argsort(model.means_[:, 0])
    ours = fit_mixture(values, start)
    assert ours.means == pytest.approx(model.means_[order, 0], abs=0.01)
    noisy = model.predict(values[:, None]) == order[1]
    assert (larger_component(values) == noisy).mean() > 0.98


# Degenerate values


def test_variances_do_not_fall_below_their_floor() -> None:
    found = fit_mixture(
        np.array([0.0, 0, 1, 1]), first_start(0, 1), variance_floor=1e-4, tolerance=1e-9
    )
    assert found.variances.tolist() == [1e-4, 1e-4]
    assert found.means == pytest.approx([0, 1])


def test_weights_do_not_fall_below_their_floor() -> None:
    values = np.array([0.0] * 99 + [1.0])  # the noisy component holds 1 %
    start = mixture((0, 1), (0.01, 0.01))
    assert fit_mixture(values, start, weight_floor=0.02).weights == pytest.approx([0.98, 0.02])
    assert fit_mixture(1 - values, start, weight_floor=0.02).weights == pytest.approx([0.02, 0.98])
    assert fit_mixture(values, start, weight_floor=1e-3).weights == pytest.approx([0.99, 0.01])


@pytest.mark.parametrize(("empty", "mean"), [(1, 1000.0), (0, -1000.0)])
def test_an_empty_component_keeps_its_mean_and_variance(empty: int, mean: float) -> None:
    start = mixture((0, mean) if empty else (mean, 0), (2, 3) if empty else (3, 2))
    found = fit_mixture(np.array([0.0, 1.0, 2.0]), start)
    assert found.means[empty] == mean
    assert found.variances[empty] == 3
    assert found.weights[empty] == pytest.approx(1e-3)
    assert found.means[1 - empty] == pytest.approx(1)
    assert found.variances[1 - empty] == pytest.approx(2 / 3)


@pytest.mark.parametrize("values", [[5.0], [5.0] * 7, [0.0, 0.0], [10.0, 10.0, 10.0]])
def test_equal_values_give_finite_parameters(values: list[float]) -> None:
    found = fit_mixture(np.array(values), first_start(0, 10), variance_floor=1e-4)
    assert np.isfinite(parameters(found)).all()
    assert (found.variances >= 1e-4).all()
    assert found.weights.sum() == pytest.approx(1)
    assert np.isfinite(found.p_clean(np.array(values))).all()


def test_half_way_between_equal_components_both_move_there() -> None:
    found = fit_mixture(np.array([5.0]), first_start(0, 10), variance_floor=1e-4)
    assert found.means == pytest.approx([5, 5])
    assert found.variances.tolist() == [1e-4, 1e-4]
    assert found.weights == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        fit_mixture(np.array([0.1, bad, 0.2]), first_start(0, 1))


def test_no_values_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one value"):
        fit_mixture(np.array([]), first_start(0, 1))
    with pytest.raises(ValueError, match="at least one value"):
        fit_mixture(np.array([0.1, 0.9]), first_start(0, 1), counts=np.zeros(2))


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(st.floats(-8, 8), min_size=1, max_size=12),
    means=st.tuples(st.floats(-8, 8), st.floats(-8, 8)),
    variances=st.tuples(st.floats(1e-4, 64), st.floats(1e-4, 64)),
    clean=st.floats(0.001, 0.999),
)
def test_em_never_gives_nan(values: list, means: tuple, variances: tuple, clean: float) -> None:
    found = fit_mixture(np.array(values), mixture(means, variances, (clean, 1 - clean)))
    assert np.isfinite(parameters(found)).all()
    assert found.means[0] <= found.means[1]
    assert (found.variances > 0).all()
    assert found.weights.min() >= 1e-3 * (1 - 1e-9)


# The own prior


def test_one_step_of_the_own_weight_by_hand() -> None:
    # p(clean) of (-A, -A, 0, A) is 3/4, 3/4, 1/2, 1/4: their mean is 9/16.
    found = own_weights(np.array([-A, -A, 0, A]), UNIT, steps=1)
    assert found.weights == pytest.approx([9 / 16, 7 / 16])
    assert found.means is UNIT.means
    assert found.variances is UNIT.variances


def test_own_weights_takes_fifty_steps_from_the_shared_weights() -> None:
    values = np.array([-1.5, -0.4, 0.1, 0.3, 2.0])
    shared = mixture((-1, 1), (1, 2), (0.8, 0.2))
    clean = 0.8
    for _ in range(50):
        odds = (
            clean
            / (1 - clean)
            * np.exp(-((values + 1) ** 2) / 2 + (values - 1) ** 2 / 4)
            * np.sqrt(2)
        )
        clean = np.mean(odds / (1 + odds))
    assert own_weights(values, shared).weights == pytest.approx([clean, 1 - clean], abs=1e-12)


def test_own_weights_settles_where_the_mean_posterior_is_the_weight() -> None:
    values = np.array([-1.5, -0.4, 0.1, 0.3, 2.0])
    settled = own_weights(values, UNIT, steps=2000)
    assert settled.p_clean(values).mean() == pytest.approx(settled.weights[0], abs=1e-12)
    again = own_weights(values, settled, steps=1)
    assert again.weights == pytest.approx(settled.weights, abs=1e-12)


def test_own_weights_are_clamped() -> None:
    shared = mixture((-4, 4), (1, 1))
    assert own_weights(np.full(9, -4.0), shared).weights == pytest.approx([0.98, 0.02])
    assert own_weights(np.full(9, 4.0), shared).weights == pytest.approx([0.02, 0.98])


def test_own_weights_of_nobody_are_the_shared_ones() -> None:
    shared = mixture((-4, 4), (1, 1), (0.7, 0.3))
    assert own_weights(np.array([]), shared).weights == pytest.approx([0.7, 0.3])


# The posterior


def test_posterior_with_equal_variances_is_a_logistic_curve() -> None:
    # log-odds of clean = -(x+1)²/2 + (x-1)²/2 = -2x
    p = UNIT.p_clean(np.array([-A, 0, A, 2 * A]))
    assert p == pytest.approx([3 / 4, 1 / 2, 1 / 4, 1 / 10])


# N(0, 1) against N(2, 4): log-odds = log 2 - x²/2 + (x-2)²/8; it turns round at x = -2/3.
NARROW_CLEAN = mixture((0, 2), (1, 4))
# Mirrored at x = 1: N(0, 4) against N(2, 1); it turns round at x = 8/3.
NARROW_NOISY = mixture((0, 2), (4, 1))


def test_posterior_with_unequal_variances() -> None:
    p = NARROW_CLEAN.p_clean(np.array([0.0, 2.0, -10.0]))
    odds = [2 * np.exp(0.5), 2 * np.exp(-2), 2 * np.exp(-50 + 18)]
    assert p == pytest.approx([o / (1 + o) for o in odds])
    assert p[2] < 1e-12  # far below the clean mean, and yet "noisy": what the guard is for


def test_posterior_far_out_is_finite() -> None:
    assert UNIT.p_clean(np.array([-1e6, 1e6])).tolist() == [1.0, 0.0]


def test_guard_in_the_lower_tail() -> None:
    # At the turning point: log 2 - (2/3)²/2 + (8/3)²/8 = log 2 + 2/3
    top = 2 * np.exp(2 / 3) / (1 + 2 * np.exp(2 / 3))
    p = NARROW_CLEAN.p_clean(np.array([-100, -10, -1, -2 / 3]), monotone=True)
    assert p == pytest.approx([top] * 4)


def test_guard_in_the_upper_tail() -> None:
    low = 1 / (1 + 2 * np.exp(2 / 3))
    p = NARROW_NOISY.p_clean(np.array([8 / 3, 3, 10, 100]), monotone=True)
    assert p == pytest.approx([low] * 4)


def test_at_a_mean_its_own_component_wins() -> None:
    mostly_noisy = mixture((0, 0.1), (1, 1), (0.02, 0.98))
    assert (mostly_noisy.p_clean(np.array([-3.0, 0.0])) < 0.5).all()
    assert (mostly_noisy.p_clean(np.array([-3.0, 0.0]), monotone=True) >= 0.5).all()
    mostly_clean = mixture((0, 0.1), (1, 1), (0.98, 0.02))
    assert (mostly_clean.p_clean(np.array([0.1, 1.0])) > 0.5).all()
    assert (mostly_clean.p_clean(np.array([0.1, 1.0]), monotone=True) < 0.5).all()


@st.composite
def mixtures(draw: st.DrawFn) -> Mixture:
    means = sorted(draw(st.tuples(st.floats(-8, 8), st.floats(-8, 8))))
    variances = draw(st.tuples(st.floats(1e-3, 64), st.floats(1e-3, 64)))
    clean = draw(st.floats(0.001, 0.999))
    return mixture(tuple(means), variances, (clean, 1 - clean))


GRID = np.linspace(-40, 40, 161)


@settings(max_examples=200, deadline=None)
@given(mixtures())
@example(NARROW_CLEAN)
@example(NARROW_NOISY)
@example(mixture((0, 0), (1, 4), (0.9, 0.1)))
@example(mixture((0, 0), (4, 1), (0.1, 0.9)))
@example(mixture((0, 0), (1, 1)))
def test_monotone_posterior(found: Mixture) -> None:
    scores = np.sort(np.concatenate([GRID, found.means]))
    p = found.p_clean(scores, monotone=True)
    assert (np.diff(p) <= 1e-9).all(), "a higher score never means a cleaner label"
    assert ((p >= 0) & (p <= 1)).all()
    assert (p[scores < found.means[0]] >= 0.5).all()
    assert (p[scores > found.means[1]] < 0.5).all()
    between = (scores > found.means[0]) & (scores < found.means[1])
    assert p[between] == pytest.approx(found.p_clean(scores)[between], abs=1e-12)


@settings(max_examples=100, deadline=None)
@given(mixtures().filter(lambda found: found.means[0] < found.means[1]))
def test_monotone_posterior_at_the_means(found: Mixture) -> None:
    p = found.p_clean(found.means, monotone=True)
    assert p[0] >= 0.5 > p[1]


@settings(max_examples=100, deadline=None)
@given(mixtures().filter(lambda found: found.means[0] < found.means[1]), st.floats(0.01, 20))
def test_guards_hold_the_extreme_value_on_the_way_from_the_mean(found: Mixture, far: float) -> None:
    # The specification's own words, on a fine grid: the largest value on [s, μ1], the smallest
    # on [μ2, s].
    below = np.linspace(found.means[0] - far, found.means[0], 2001)
    largest = max(found.p_clean(below).max(), 0.5)
    assert found.p_clean(below[:1], monotone=True)[0] == pytest.approx(largest, abs=1e-3)
    above = np.linspace(found.means[1], found.means[1] + far, 2001)
    smallest = min(found.p_clean(above).min(), 0.5)
    assert found.p_clean(above[-1:], monotone=True)[0] == pytest.approx(smallest, abs=1e-3)

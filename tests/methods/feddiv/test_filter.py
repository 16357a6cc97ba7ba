import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from feddiv.learning.gaussian_mixture import Mixture, first_start, fit_mixture, own_weights
from feddiv.learning.robust import CentreRule
from feddiv.methods.feddiv.filter import BINS, FilterOptions, NoiseFilter

PAPER = FilterOptions(
    score="cross_entropy",
    scale="minmax",
    debias="none",
    aggregate="mean",
    fit="local",
    prior="shared",
    no_noise_rule=False,
    second_opinion=False,
    monotone=False,
    starved_below=0.0,
)
RELEASE = FilterOptions(
    **{**PAPER.model_dump(), "score": "bounded", "variance_weights": "squared", "em_steps": 3}
)

ONE = np.array([0.0, 1.0, 0.1, 0.2, 0.5, 0.5])  # means, variances, weights
TWO = np.array([0.4, 0.8, 0.3, 0.6, 0.25, 0.75])


def of(options: FilterOptions, means: tuple, variances: tuple, weights: tuple) -> NoiseFilter:
    mixture = Mixture(np.array(means, float), np.array(variances, float), np.array(weights))
    return NoiseFilter(options, mixture=mixture)


def plus(**changed: object) -> FilterOptions:
    return FilterOptions(**{**FilterOptions().model_dump(), **changed})


def parameters(found: NoiseFilter) -> np.ndarray:
    assert found.mixture is not None
    return np.concatenate([found.mixture.means, found.mixture.variances, found.mixture.weights])


# The server, `mean`


def test_mean_of_two_clients_with_one_and_three_samples() -> None:
    # Shares 1/4 and 3/4: the noisy mean is 1/4 + 3/4 · 0.8 = 0.85, and so on.
    found = NoiseFilter(PAPER).from_mixtures(np.stack([ONE, TWO]), np.array([1, 3]))
    assert parameters(found) == pytest.approx([0.3, 0.85, 0.25, 0.5, 0.3125, 0.6875])


def test_squared_shares_for_the_variances_alone() -> None:
    # 1/16 · 0.1 + 9/16 · 0.3 = 0.175 and 1/16 · 0.2 + 9/16 · 0.6 = 0.35
    found = NoiseFilter(RELEASE).from_mixtures(np.stack([ONE, TWO]), np.array([1, 3]))
    assert parameters(found) == pytest.approx([0.3, 0.85, 0.175, 0.35, 0.3125, 0.6875])


LIE = np.array([0.9, 1.0, 1.0, 1.0, 0.99, 0.01])


@pytest.mark.parametrize("centre", ["median", "trimmed_mean"])
def test_a_robust_centre_of_mixtures_is_between_those_of_honest_clients(centre: str) -> None:
    robust = NoiseFilter(PAPER, centre=CentreRule(centre, 0.25))
    # The liar says that it has a million samples: it counts for three times the median, 6 of 12.
    rows, sizes = np.stack([ONE, ONE, TWO, LIE]), np.array([2, 2, 2, 1_000_000])
    found = parameters(robust.from_mixtures(rows, np.array([2, 2, 2, 2])))
    assert (found[:4] <= np.maximum(ONE, TWO)[:4] + 1e-12).all()
    assert found[4:].sum() == pytest.approx(1)
    if centre == "median":  # of 0 0 0.4 0.9, of 0.8 1 1 1, of 0.1 0.1 0.3 1, of 0.2 0.2 0.6 1
        assert found[:4] == pytest.approx([0.2, 1.0, 0.2, 0.4])
        # Half of the weight is the liar's now: between its numbers and the next.
        half = parameters(robust.from_mixtures(rows, sizes))
        assert half[0] == pytest.approx((0.4 + 0.9) / 2)


def test_a_robust_centre_with_squared_shares_keeps_their_scale() -> None:
    robust = NoiseFilter(RELEASE, centre=CentreRule("median"))
    found = robust.from_mixtures(np.stack([ONE, ONE]), np.array([1, 1]))
    assert parameters(found) == pytest.approx([0, 1, 0.05, 0.1, 0.5, 0.5])


def test_nobody_sent_anything() -> None:
    before = of(PAPER, (0.1, 0.9), (0.1, 0.1), (0.5, 0.5))
    assert before.from_mixtures(np.empty((0, 6)), np.empty(0)) is before


# What a client sends, `mean`


def test_a_client_starts_from_the_first_start_and_later_from_the_received_filter() -> None:
    scores = np.array([0.0, 0.1, 0.2, 0.7, 1.0])
    once = FilterOptions(**{**PAPER.model_dump(), "em_steps": 1})
    first = NoiseFilter(once).summarise(scores)
    by_hand = fit_mixture(scores, first_start(0, 1), steps=1)
    assert first == pytest.approx([*by_hand.means, *by_hand.variances, *by_hand.weights])

    received = of(once, (0.15, 0.6), (0.01, 0.09), (0.6, 0.4))
    later = received.summarise(scores)
    by_hand = fit_mixture(scores, received.mixture, steps=1)
    assert later == pytest.approx([*by_hand.means, *by_hand.variances, *by_hand.weights])


def test_a_client_fits_to_a_mean_log_likelihood_within_a_thousandth() -> None:
    rng = np.random.default_rng(2)
    raw = np.concatenate([rng.normal(0.2, 0.1, 60), rng.normal(0.6, 0.15, 40)])
    scores = (raw - raw.min()) / (raw.max() - raw.min())
    sent = NoiseFilter(PAPER).summarise(scores)
    fits = {t: fit_mixture(scores, first_start(0, 1), tolerance=t) for t in (1e-2, 1e-3, 1e-4)}
    assert sent == pytest.approx(fits[1e-3].packed())
    assert sent != pytest.approx(fits[1e-2].packed())
    assert sent != pytest.approx(fits[1e-4].packed())


def test_floors_of_a_clients_fit() -> None:
    # 1e-6 of the squared range, which is 1 after min-max and 2² for these losses as they are.
    scaled = NoiseFilter(PAPER).summarise(np.array([0.0, 0, 1, 1]))
    assert scaled == pytest.approx([0, 1, 1e-6, 1e-6, 0.5, 0.5])
    raw = FilterOptions(**{**PAPER.model_dump(), "scale": "absolute"})
    assert NoiseFilter(raw).summarise(np.array([1.0, 1, 3, 3]))[2:4] == pytest.approx([4e-6, 4e-6])
    # One sample of two thousand is a share below 1e-3.
    rare = of(PAPER, (0, 1), (0.01, 0.01), (0.5, 0.5)).summarise(np.array([0.0] * 1999 + [1.0]))
    assert rare[4:] == pytest.approx([0.999, 0.001])


def test_min_max_is_per_client() -> None:
    # Losses on scales 10 apart, the same after scaling: the federated filter is that of either.
    one = np.array([0.0, 0.5, 1.0, 9.0, 10.0])
    both, alone = NoiseFilter(PAPER).fit([one, one / 10]), NoiseFilter(PAPER).fit([one])
    assert parameters(both) == pytest.approx(parameters(alone))
    assert both.p_clean(one) == pytest.approx(both.p_clean(one / 10))
    assert (both.p_clean(one) >= 0.5).tolist() == [True, True, True, False, False]


# The server, `histogram`


def test_bins_of_a_quarter_over_the_range_of_log_odds() -> None:
    scores = np.array([-8.0, -7.76, -7.75, -0.01, 0.0, 0.24, 0.25, 8.0, 9.5, -11.0])
    counts = NoiseFilter().summarise(scores)
    assert counts is not None
    assert counts.shape == (BINS,) == (64,)
    # -8, -7.76 and -11 lie in bin 0; 8 and 9.5 in the last, which includes its upper end.
    found = {int(b): int(counts[b]) for b in np.flatnonzero(counts)}
    assert found == {0: 3, 1: 1, 31: 1, 32: 2, 33: 1, 63: 2}


def test_bins_count_at_their_centres() -> None:
    counts = np.zeros(64)
    counts[0], counts[63] = 30, 10
    found = NoiseFilter().from_histogram(counts)
    # ends ± half of a bin's width of 1/4; floor 1e-4 · 16² = 0.0256
    assert parameters(found) == pytest.approx([-7.875, 7.875, 0.0256, 0.0256, 0.75, 0.25])


def test_pooled_weights_stay_within_two_percent_of_the_ends() -> None:
    counts = np.zeros(64)
    counts[10], counts[50] = 999, 1
    assert parameters(NoiseFilter().from_histogram(counts))[4:] == pytest.approx([0.98, 0.02])


def test_pooled_fit_is_em_over_the_centres_to_convergence() -> None:
    counts = np.random.default_rng(0).integers(0, 20, 64).astype(float)
    centres = -8 + (np.arange(64) + 0.5) / 4
    by_hand = fit_mixture(
        np.repeat(centres, counts.astype(int)),
        Mixture(np.array([-4.8, 4.8]), np.array([12.8, 12.8]), np.array([0.5, 0.5])),
        variance_floor=0.0256,
        weight_floor=0.02,
        tolerance=1e-6,
    )
    found = NoiseFilter().from_histogram(counts)
    expected = np.concatenate([by_hand.means, by_hand.variances, by_hand.weights])
    assert parameters(found) == pytest.approx(expected, abs=1e-9)


def test_the_pooled_fit_starts_from_scratch_every_time() -> None:
    counts = np.random.default_rng(0).integers(0, 20, 64).astype(float)
    strange = of(FilterOptions(), (-7.9, -7.8), (0.03, 0.03), (0.5, 0.5))
    assert np.array_equal(
        parameters(strange.from_histogram(counts)), parameters(NoiseFilter().from_histogram(counts))
    )


def test_an_empty_total_leaves_the_filter_as_it_was() -> None:
    before = of(FilterOptions(), (-4, 4), (1, 1), (0.5, 0.5))
    assert before.from_histogram(np.zeros(64)) is before


Scores = st.lists(st.floats(-10, 10), min_size=2, max_size=30).filter(lambda s: min(s) < max(s))


@settings(max_examples=50, deadline=None)
@given(st.lists(Scores, min_size=1, max_size=4))
def test_the_sum_of_histograms_is_the_histogram_of_all_scores(clients: list) -> None:
    parts = [NoiseFilter().summarise(np.array(scores)) for scores in clients]
    pooled = NoiseFilter().summarise(np.concatenate([np.array(scores) for scores in clients]))
    assert np.array_equal(np.sum(parts, axis=0), pooled)
    assert pooled.sum() == sum(len(scores) for scores in clients)


def test_who_holds_a_score_does_not_matter_to_the_pooled_filter() -> None:
    scores = np.random.default_rng(1).normal(0, 4, 60)
    one = NoiseFilter().fit([scores])
    three = NoiseFilter().fit([scores[:5], scores[5:30], scores[30:]])
    assert np.array_equal(parameters(one), parameters(three))


# Deciding


@pytest.mark.parametrize(
    ("noisy_mean", "rule", "filters"),
    [
        (-0.01, True, False),
        (0.0, True, True),
        (3.0, True, True),
        (-0.01, False, True),
    ],
)
def test_no_noise_rule(noisy_mean: float, rule: bool, filters: bool) -> None:
    found = of(plus(no_noise_rule=rule, prior="shared"), (-5, noisy_mean), (1, 1), (0.5, 0.5))
    assert found.sees_no_noise is not filters
    assert (found.p_clean(np.array([-5.0, 7.0])) >= 0.5).tolist() == [True, not filters]


def test_own_prior_moves_the_boundary() -> None:
    # Means ∓4 and variances 4: log-odds of clean = log π/(1-π) - 2x. The client is as good as
    # clean, its π is clamped at 0.98 (odds 49), so a score of 1.5 has odds 49 / e³.
    scores = np.array([-4.0] * 100 + [1.5])
    alone = {"second_opinion": False}
    shared = of(plus(prior="shared", **alone), (-4, 4), (4, 4), (0.5, 0.5))
    own = of(plus(**alone), (-4, 4), (4, 4), (0.5, 0.5))
    assert shared.p_clean(scores)[-1] == pytest.approx(1 / (1 + np.exp(3)))
    assert own.p_clean(scores)[-1] == pytest.approx(49 / (49 + np.exp(3)))


def test_own_prior_is_the_shared_densities_with_the_clients_weight() -> None:
    scores = np.random.default_rng(3).normal(0, 4, 50)
    own = of(plus(monotone=False, second_opinion=False), (-4, 3), (4, 6), (0.5, 0.5))
    expected = own_weights(scores, own.mixture, steps=50, weight_floor=0.02).p_clean(scores)
    assert own.p_clean(scores) == pytest.approx(expected)


def test_monotone_is_an_option() -> None:
    scores = np.array([-10.0])
    shared = {"prior": "shared", "no_noise_rule": False, "second_opinion": False}
    plain = of(plus(monotone=False, **shared), (0, 2), (1, 4), (0.5, 0.5))
    guarded = of(plus(monotone=True, **shared), (0, 2), (1, 4), (0.5, 0.5))
    assert plain.p_clean(scores)[0] < 0.5 <= guarded.p_clean(scores)[0]


# Nothing to learn from


@pytest.mark.parametrize("options", [PAPER, RELEASE, FilterOptions()])
@pytest.mark.parametrize("scores", [[], [0.3], [0.3, 0.3, 0.3]])
def test_fewer_than_two_samples_or_equal_scores_stay_out(
    options: FilterOptions, scores: list[float]
) -> None:
    alone, others = NoiseFilter(options), np.array([0.0, 0.1, 0.9, 1.0])
    assert alone.summarise(alone.scale(np.array(scores))) is None
    assert np.array_equal(
        parameters(alone.fit([np.array(scores), others])), parameters(alone.fit([others]))
    )
    nobody = alone.fit([np.array(scores)])
    assert nobody.mixture is None
    with pytest.raises(ValueError, match="has learnt nothing yet"):
        nobody.p_clean(np.array(scores))


@pytest.mark.parametrize("options", [PAPER, RELEASE])
def test_equal_scores_are_clean_after_min_max(options: FilterOptions) -> None:
    found = of(options, (0.1, 0.4), (0.01, 0.01), (0.5, 0.5))  # 0.5 itself would be noisy
    assert found.p_clean(np.array([2.0, 2.0, 2.0])).tolist() == [1.0] * 3
    assert found.p_clean(np.array([2.0])).tolist() == [1.0]


@pytest.mark.parametrize("options", [PAPER, FilterOptions()])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_scores_that_are_not_finite_are_refused(options: FilterOptions, bad: float) -> None:
    scores = np.array([0.1, bad, 0.2])
    with pytest.raises(ValueError, match="finite"):
        NoiseFilter(options).fit([scores])
    with pytest.raises(ValueError, match="finite"):
        of(options, (0, 1), (1, 1), (0.5, 0.5)).p_clean(scores)


# Options that do not go together


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"score": "cross_entropy", "no_noise_rule": False, "second_opinion": False},
            "aggregate=histogram needs a common range",
        ),
        ({"variance_weights": "squared"}, "variance_weights=squared is for aggregate=mean"),
        ({"score": "bounded"}, "no_noise_rule takes scores for odds"),
        ({"scale": "minmax", "starved_below": 0.0}, "no_noise_rule takes scores for odds"),
        (
            {"scale": "minmax", "no_noise_rule": False, "second_opinion": False},
            "starved_below compares scores between",
        ),
        ({"starved_below": -0.1}, "starved_below"),
        ({"starved_below": 1.1}, "starved_below"),
        ({"em_steps": -1}, "em_steps"),
        ({"clean_client_below": 1.1}, "clean_client_below"),
        ({"score": "loss"}, "score"),
        ({"prior": "none"}, "prior"),
    ],
)
def test_impossible_options_are_refused(options: dict, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        FilterOptions(**options)


@pytest.mark.parametrize(
    "options",
    [
        {
            "score": "cross_entropy",
            "scale": "minmax",
            "no_noise_rule": False,
            "second_opinion": False,
            "starved_below": 0.0,
        },
        {"score": "bounded", "no_noise_rule": False, "second_opinion": False},
        {"aggregate": "mean", "variance_weights": "squared"},
        {
            "aggregate": "mean",
            "score": "cross_entropy",
            "no_noise_rule": False,
            "second_opinion": False,
            "starved_below": 0.0,
        },
    ],
)
def test_their_possible_neighbours_are_not(options: dict) -> None:
    clients = [np.array([1.6, 1.7, 1.65, 2.3]), np.array([1.7, 2.4, 2.35, 1.68])]
    found = NoiseFilter(FilterOptions(**options), classes=10).fit(clients)
    assert np.isfinite(parameters(found)).all()


def test_bounds() -> None:
    assert NoiseFilter(PAPER).bounds() == (0, 1)
    assert NoiseFilter().bounds() == (-8, 8)
    bounded = NoiseFilter(
        plus(score="bounded", no_noise_rule=False, second_opinion=False), classes=3
    )
    assert bounded.bounds() == pytest.approx((np.log(np.e + 2) - 1, np.log(np.e + 2)))
    options = {
        "aggregate": "mean",
        "no_noise_rule": False,
        "second_opinion": False,
        "starved_below": 0.0,
    }
    raw = NoiseFilter(plus(score="cross_entropy", **options))
    assert raw.bounds(np.array([0.5, 3.0, 2.0])) == (0.5, 3.0)
    with pytest.raises(ValueError, match="no common range"):
        raw.bounds()

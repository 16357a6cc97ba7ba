"""The model's own opinion on labels, and how it is joined with the filter's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from feddiv.learning.gaussian_mixture import Mixture
from feddiv.methods.feddiv.filter import FilterOptions, NoiseFilter
from feddiv.methods.feddiv.second_opinion import (
    TEMPERATURES,
    best_temperature,
    least_log_likelihood,
    log_likelihoods,
    model_log_odds,
    with_second_opinion,
)


def score(q: float) -> float:
    """The log-odds score of a label that the model gives probability q."""
    return float(np.log(1 - q) - np.log(q))


def test_odds_are_those_of_bayes_rule() -> None:
    # delta is at home where the labels' mean posterior gives it back: with q = 1/C every label is
    # as likely under noise as under truth, and any delta is; EM stays at its start, 1/2.
    assert model_log_odds(np.full(4, score(0.1)), classes=10) == pytest.approx(np.zeros(4))


def test_a_clean_client_is_found_clean_and_a_noisy_one_noisy() -> None:
    # Ten labels at q = .9 and .5: C q = 9 and 5, both above 1. delta falls to its floor, 0.001.
    sure = np.array([score(0.9)] * 8 + [score(0.5)] * 2)
    expected = np.log(999) + np.log([9.0] * 8 + [5.0] * 2)
    assert model_log_odds(sure, classes=10) == pytest.approx(expected)
    # All labels at q = .01, C q = .1: delta rises to its ceiling, .98, odds .02 / .98 * .1.
    doubtful = np.full(5, score(0.01))
    assert model_log_odds(doubtful, classes=10) == pytest.approx(np.full(5, np.log(0.1 / 49)))


def test_half_of_the_labels_wrong() -> None:
    # C q is 9.9 for the right and .01 for the wrong half. A corrupted label may hit the truth by
    # chance, so delta is a little above 1/2: it solves d = 1/2 + 1/2 d / (d + 9.9 (1 - d)), .555.
    scores = np.array([score(0.99)] * 50 + [score(0.001)] * 50)
    odds = model_log_odds(scores, classes=10)
    share = 1 - 1 / (1 + np.exp(-odds))
    assert share.mean() == pytest.approx(0.555, abs=0.01)
    assert (odds > 0).tolist() == [True] * 50 + [False] * 50


def test_opinions_are_averaged_as_log_odds() -> None:
    scores = np.full(3, score(0.1))  # the model has no opinion: log-odds 0
    joined = with_second_opinion(np.array([0.9, 0.5, 0.1]), scores, classes=10)
    # Half of log 9 is log 3, and 3 : 1 is 3/4.
    assert joined == pytest.approx([0.75, 0.5, 0.25])


def test_certain_filters_stay_finite() -> None:
    joined = with_second_opinion(np.array([0.0, 1.0]), np.array([-8.0, 8.0]), classes=10)
    assert np.isfinite(joined).all()


def test_no_samples_no_opinion() -> None:
    assert model_log_odds(np.empty(0), classes=10).shape == (0,)


@given(st.lists(st.floats(-8, 8), min_size=2, max_size=30), st.integers(2, 100))
def test_a_higher_score_is_never_cleaner(values: list[float], classes: int) -> None:
    scores = np.sort(np.array(values))
    mixture = Mixture(np.array([-4.0, 3.0]), np.array([2.0, 5.0]), np.array([0.5, 0.5]))
    p_clean = NoiseFilter(FilterOptions(), classes, mixture).p_clean(scores)
    assert (np.diff(p_clean) <= 1e-12).all()
    assert ((p_clean >= 0) & (p_clean <= 1)).all()


def test_the_filter_asks_for_it_or_not() -> None:
    mixture = Mixture(np.array([-4.0, 4.0]), np.array([4.0, 4.0]), np.array([0.5, 0.5]))
    scores = np.array([-0.5, 0.5, 6.0])
    alone = NoiseFilter(FilterOptions(second_opinion=False), 10, mixture).p_clean(scores)
    joined = NoiseFilter(FilterOptions(), 10, mixture).p_clean(scores)
    assert joined == pytest.approx(with_second_opinion(alone, scores, 10))


def test_likelihoods_by_hand() -> None:
    # Two classes, one label at q = .8: C q = 1.6, so delta falls to its floor .001, and the label's
    # likelihood is .999 * .8 + .001 / 2 = .7997. At temperature 1/2 the odds 4 become 16.
    logits = np.array([[np.log(4.0), 0.0]])
    found = log_likelihoods(logits, np.array([0]))
    assert found[0] == pytest.approx(np.log(0.7997))
    assert found[TEMPERATURES.index(0.5)] == pytest.approx(np.log(0.999 * 16 / 17 + 0.0005))


def test_a_model_that_is_too_modest_is_sharpened() -> None:
    # 2,000 labels, a third of them any of ten classes. The model knows the truth, but gives it a
    # logit of 2 only, where the share of right labels asks for far more.
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 10, 2000)
    given = np.where(rng.random(2000) < 1 / 3, rng.integers(0, 10, 2000), truth)
    modest = 2.0 * np.eye(10)[truth]
    assert best_temperature(log_likelihoods(modest, given)) < 0.5
    # One whose guesses, timid or bold, are right as often as it says needs no sharpening.
    guesses = rng.choice([1.0, 5.0], (2000, 1)) * np.eye(10)[rng.integers(0, 10, 2000)]
    odds = np.exp(guesses) / np.exp(guesses).sum(axis=1, keepdims=True)
    honest = np.array([rng.choice(10, p=row) for row in odds])
    assert best_temperature(log_likelihoods(guesses, honest)) == 1.0


@given(st.lists(st.floats(-50, 50), min_size=3, max_size=3), st.integers(0, 2))
def test_a_likelihood_has_a_lower_end(logits: list[float], label: int) -> None:
    found = log_likelihoods(np.array([logits]), np.array([label]))
    assert (found >= least_log_likelihood(3) - 1e-9).all()
    assert (found <= 1e-9).all()


def test_before_anybody_said_anything_the_temperature_is_1() -> None:
    assert best_temperature(np.zeros(len(TEMPERATURES))) == 1.0


def test_nobody_is_no_reason_to_fail() -> None:
    assert log_likelihoods(np.zeros((0, 3)), np.zeros(0, np.int64)).tolist() == [0.0] * 8

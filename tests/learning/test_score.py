import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from feddiv.learning.score import debias, label_scores, log_softmax, minmax, score_range

# Softmax (1/2, 1/4, 1/4) three times, scored for each of the three labels.
Q = np.array([0.5, 0.25, 0.25])
LOGITS = np.log(Q) + np.array([[0.0], [7.0], [-300.0]])  # a shift of all logits means nothing
LABELS = np.array([0, 1, 2])


def test_log_softmax() -> None:
    assert np.exp(log_softmax(LOGITS)) == pytest.approx(np.stack([Q] * 3))


def test_cross_entropy() -> None:
    scores = label_scores(LOGITS, LABELS, "cross_entropy")
    assert scores == pytest.approx([np.log(2), np.log(4), np.log(4)])


def test_log_odds() -> None:
    # (1-q)/q = 1 for q = 1/2, and 3 for q = 1/4
    assert label_scores(LOGITS, LABELS, "log_odds") == pytest.approx([0, np.log(3), np.log(3)])


def test_bounded() -> None:
    total = np.log(np.exp(0.5) + 2 * np.exp(0.25))
    scores = label_scores(LOGITS, LABELS, "bounded")
    assert scores == pytest.approx([total - 0.5, total - 0.25, total - 0.25])


@pytest.mark.parametrize("classes", [2, 3, 10, 100])
def test_bounded_reaches_both_ends_of_its_range(classes: int) -> None:
    low, high = score_range("bounded", classes)
    assert high == pytest.approx(np.log(np.e + classes - 1))
    assert low == pytest.approx(np.log(np.e + classes - 1) - 1)
    sure = np.zeros((2, classes))
    sure[:, 0] = 500.0
    assert label_scores(sure, np.array([0, 1]), "bounded") == pytest.approx([low, high])


def test_ranges_of_the_other_scores() -> None:
    assert score_range("log_odds", 10) == (-8.0, 8.0)
    assert score_range("cross_entropy", 10) is None


def test_log_odds_are_clipped_at_eight() -> None:
    # Two classes: log-odds against class 0 are f1 - f0.
    logits = np.array([[0, 7.9], [0, 8.1], [7.9, 0], [8.1, 0]])
    scores = label_scores(logits, np.zeros(4, int), "log_odds")
    assert scores == pytest.approx([7.9, 8, -7.9, -8])


@pytest.mark.parametrize("score", ["cross_entropy", "bounded", "log_odds"])
def test_extreme_logits_stay_finite(score: str) -> None:
    logits = np.array([[1e4, 0, -1e4], [1e4, 0, -1e4], [-1e4, -1e4, -1e4]])
    scores = label_scores(logits, np.array([0, 2, 1]), score)
    assert np.isfinite(scores).all()
    assert scores[0] < scores[2] < scores[1]  # certain, one of three, certainly wrong
    if score == "cross_entropy":
        assert scores == pytest.approx([0, 2e4, np.log(3)])
    if score == "log_odds":
        assert scores == pytest.approx([-8, 8, np.log(2)])


@given(st.lists(st.floats(-50, 50), min_size=3, max_size=3), st.floats(0.1, 10))
def test_more_logit_for_the_label_is_never_more_suspicious(logits: list, more: float) -> None:
    label = np.array([1])
    before, after = np.array([logits]), np.array([logits])
    after[0, 1] += more
    for score in ("cross_entropy", "bounded", "log_odds"):
        gap = label_scores(after, label, score) - label_scores(before, label, score)
        assert gap[0] <= 1e-9
        bounds = score_range(score, 3)
        if bounds:
            value = label_scores(after, label, score)[0]
            assert bounds[0] - 1e-9 <= value <= bounds[1] + 1e-9


def test_debiasing_by_the_prediction_itself_leaves_even_odds_of_all_classes() -> None:
    even = debias(LOGITS, Q)
    assert np.exp(log_softmax(even)) == pytest.approx(np.full((3, 3), 1 / 3))
    assert label_scores(even, LABELS, "log_odds") == pytest.approx([np.log(2)] * 3)


def test_debiasing_divides_by_a_power_of_the_bias() -> None:
    # (1/2, 1/4, 1/4) / sqrt(4/9, 4/9, 1/9) is (3/4, 3/8, 3/4): proportional to 2, 1, 2
    halved = debias(LOGITS, np.array([4, 4, 1]) / 9, strength=0.5)
    assert np.exp(log_softmax(halved))[0] == pytest.approx([2 / 5, 1 / 5, 2 / 5])


def test_no_bias_changes_nothing_and_a_bias_of_zero_is_clamped() -> None:
    assert debias(LOGITS, None) is LOGITS
    clamped = debias(np.zeros((1, 3)), np.array([0.0, 1e-8, 1.0]))
    assert clamped[0] == pytest.approx([8 * np.log(10), 8 * np.log(10), 0])


def test_minmax() -> None:
    assert minmax(np.array([3.0, 1.0, 5.0])) == pytest.approx([0.5, 0, 1])
    assert minmax(np.array([2.0, 2.0])).tolist() == [0.5, 0.5]
    assert minmax(np.array([7.0])).tolist() == [0.5]
    assert minmax(np.array([])).tolist() == []

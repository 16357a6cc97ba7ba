"""Three answers that agree: how many, how sure, which ones. Numbers by hand."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from feddiv.audits.estimate import Estimate, Judged, mixed
from feddiv.methods.contract import Assessment

QUALITY = np.array([0.9, 0.1, 0.8, 0.0, 0.2])  # of 5 labels, 3.0 are expected to be wrong
PREDICTED = np.zeros(5, np.int64)


def test_the_count_is_what_is_expected_and_the_issues_are_the_worst():
    judged = Judged.of(Assessment(PREDICTED, QUALITY))
    assert judged.count == 3
    assert judged.ranking.tolist() == [3, 1, 4, 2, 0]
    assert judged.issues.tolist() == [False, True, False, True, True]
    assert judged.estimate.share == pytest.approx(3.0 / 5)
    assert judged.precision(1) == 1.0
    assert judged.precision(3) == pytest.approx(2.7 / 3)
    assert judged.almost_sure == 1  # two would have an expected error of 0.1


def test_the_first_opinion_counts_more_where_it_leaves_nothing_in_doubt():
    sure, torn, second = np.array([1.0, 0.0]), np.full(2, 0.5), np.full(2, 0.6)
    assert mixed(sure, second) == pytest.approx([0.9 + 0.06, 0.06])
    assert mixed(torn, second) == pytest.approx([0.55, 0.55], abs=1e-6)
    # A filter that sees no noise leaves it to the second opinion.
    assert mixed(np.ones(3), np.array([0.9, 0.2, 0.5])).tolist() == [0.9, 0.2, 0.5]


def test_the_gap_of_two_opinions_is_the_doubt():
    def judged(first, second):
        opinions = np.full(400, first), np.full(400, second)
        return Judged.of(
            Assessment(np.zeros(400, np.int64), opinions[0], second_opinion=opinions[1])
        )

    sure, apart = judged(0.9, 0.9), judged(0.8, 1.0)  # both of them are ambiguous
    assert sure.estimate.share == pytest.approx(0.1)
    assert apart.estimate.share == pytest.approx(0.1, abs=1e-5)
    # Chance: sqrt(0.9 * 0.1 / 400) = 0.015; at least 0.005; both off together: 0.14 * 0.1 * 0.9;
    # half the gap: 0.1.
    known = 0.015**2 + 0.005**2 + 0.0126**2
    assert sure.estimate.high == pytest.approx(0.1 + 1.96 * np.sqrt(known))
    wide = 1.96 * np.sqrt(known + 0.1**2)
    assert apart.estimate.high == pytest.approx(0.1 + wide, abs=1e-4)
    assert apart.estimate.low == 0.0


def test_one_opinion_alone_says_nothing_of_how_sure_it_is():
    assert Judged.of(Assessment(PREDICTED, QUALITY)).estimate == Estimate(pytest.approx(0.6))
    assert Judged.of(Assessment(PREDICTED)) is None


def test_equally_bad_labels_are_ranked_by_what_the_model_is_sure_of():
    opinion = Assessment(
        PREDICTED[:4], np.array([0.5, 0.0, 0.0, 0.0]), confidence=np.array([1.0, 0.2, 0.9, 0.5])
    )
    assert Judged.of(opinion).ranking.tolist() == [2, 3, 1, 0]


def test_a_site_without_labels():
    judged = Judged.of(Assessment(PREDICTED[:0], np.empty(0), second_opinion=np.empty(0)))
    assert (judged.count, judged.almost_sure, judged.estimate.share) == (0, 0, 0.0)


@given(arrays(np.float64, st.integers(1, 60), elements=st.floats(0, 1)))
def test_what_is_said_of_any_qualities_agrees(quality):
    judged = Judged.of(Assessment(np.zeros(len(quality), np.int64), quality.copy()))
    assert judged.issues.sum() == judged.count
    assert abs(judged.count - judged.estimate.share * len(quality)) <= 0.5 + 1e-9
    if 0 < judged.count < len(quality):
        assert quality[judged.issues].max() <= quality[~judged.issues].min()
    assert judged.almost_sure <= judged.count
    precisions = [judged.precision(cut) for cut in range(1, len(quality) + 1)]
    assert all(a >= b - 1e-12 for a, b in pairwise(precisions))

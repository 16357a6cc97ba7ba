"""Robust centres in numbers that can be checked by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from feddiv.learning.robust import (
    agreements,
    capped_sizes,
    geometric_median_weights,
    krum,
    weighted_median,
    weighted_trimmed_mean,
)


def test_nobody_counts_for_more_than_three_times_the_median_size() -> None:
    assert capped_sizes(np.array([10.0, 20.0, 30.0, 1e9])).tolist() == [10, 20, 30, 75]
    assert capped_sizes(np.array([])).tolist() == []


def test_a_median_by_weight() -> None:
    values = np.array([[1.0, 5.0], [2.0, 9.0], [100.0, -7.0]])
    assert weighted_median(values, np.ones(3)).tolist() == [2, 5]
    # Half of the weight is reached by the third client alone.
    assert weighted_median(values, np.array([1.0, 1.0, 3.0])).tolist() == [100, -7]
    # Exactly half: between the two in the middle, as everybody's median of an even count.
    assert weighted_median(values[:2], np.ones(2)).tolist() == [1.5, 7]
    assert weighted_median(values, np.array([1.0, 1.0, 2.0])).tolist() == [51, -1]


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=9))
def test_of_equal_weights_it_is_the_plain_median(values: list[float]) -> None:
    column = np.array(values)[:, None]
    assert weighted_median(column, np.full(len(values), 3.0))[0] == pytest.approx(np.median(values))


def test_a_trimmed_mean_by_weight() -> None:
    values = np.array([[-1e9], [1.0], [2.0], [3.0], [1e9]])
    assert weighted_trimmed_mean(values, np.ones(5), 0.2)[0] == pytest.approx(2.0)
    # 30 % at each end is one client and a half: 1 and 3 count half.
    assert weighted_trimmed_mean(values, np.ones(5), 0.3)[0] == pytest.approx(2.0)
    assert weighted_trimmed_mean(values[1:4], np.array([1.0, 1.0, 2.0]), 0.0)[0] == 2.25
    # A quarter of the weight at each end: the first client, and half of the last.
    trimmed = weighted_trimmed_mean(values[1:4], np.array([1.0, 1.0, 2.0]), 0.25)[0]
    assert trimmed == pytest.approx((2 + 3) / 2)


def squared(points: list[float]) -> np.ndarray:
    column = np.array(points)
    return (column[:, None] - column[None, :]) ** 2


def test_krum_takes_the_model_with_the_nearest_neighbours() -> None:
    # Of five, floor(0.3 * 5) = 1 may lie: two neighbours count. 3 has them 1 and 1.5 away.
    assert krum(squared([0.0, 2.0, 3.0, 4.5, 1000.0]), 0.3) == 2
    assert krum(squared([1000.0, 0.0, 0.0]), 0.3) == 1
    assert krum(squared([7.0]), 0.3) == 0


def test_the_geometric_median_of_points_on_a_line_is_their_median() -> None:
    points = np.array([0.0, 1.0, 2.0, 3.0, 1e6])
    weights = geometric_median_weights(squared(points.tolist()), np.ones(5))
    assert weights.sum() == pytest.approx(1)
    assert weights @ points == pytest.approx(2.0, abs=0.01)
    # Three corners of a square and one far away: the mean would be at 250,000.
    corners = np.array([[0.0, 0], [0, 1], [1, 0], [1e6, 1e6]])
    distances = ((corners[:, None] - corners[None]) ** 2).sum(axis=2)
    assert np.abs(geometric_median_weights(distances, np.ones(4)) @ corners).max() < 2
    assert geometric_median_weights(np.zeros((3, 3)), np.ones(3)).tolist() == [1 / 3] * 3
    # Most are the same: there is a centre, and it has no distance from them.
    same = geometric_median_weights(squared([1.0, 1.0, 1.0, 9.0]), np.ones(4))
    assert same @ np.array([1.0, 1.0, 1.0, 9.0]) == pytest.approx(1.0, abs=0.01)


# Two of five are turned round; honest updates agree by .2, as on digits.
SIDES = np.array([1, 1, -1, 1, -1])
COSINES = 0.2 * np.outer(SIDES, SIDES) + 0.8 * np.eye(5)


def test_who_points_against_the_others_disagrees() -> None:
    # At first the mean of an honest one is (2 - 2) .2 / 4, that of another (1 - 3) .2 / 4: out.
    found = agreements(COSINES, np.ones(5))
    assert found.tolist() == pytest.approx([0.2, 0.2, -0.2, 0.2, -0.2])


def test_the_larger_side_by_weight_is_believed() -> None:
    found = agreements(COSINES, np.array([1.0, 1.0, 3.0, 1.0, 3.0]))
    assert (np.sign(found) == -SIDES).all()


def test_honest_updates_that_hardly_agree_all_count() -> None:
    assert (agreements(0.02 + 0.98 * np.eye(4), np.ones(4)) > 0).all()


def test_who_has_met_nobody_opposes_nobody() -> None:
    cosines = np.array([[1.0, np.nan, np.nan], [np.nan, 1.0, 0.5], [np.nan, 0.5, 1.0]])
    assert agreements(cosines, np.ones(3)).tolist() == [0.0, 0.5, 0.5]
    assert agreements(np.ones((1, 1)), np.ones(1)).tolist() == [0.0]
    # Nor does an update that did not move.
    assert agreements(np.zeros((2, 2)), np.ones(2)).tolist() == [0.0, 0.0]

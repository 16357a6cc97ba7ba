"""One row for the rows of clients, some of which lie."""

import numpy as np
import pytest

from feddiv.defence.pooled import robust_centre

ROWS = np.array([[0.5, 0.5], [0.6, 0.4], [0.4, 0.6], [0.5, 0.5], [1.0, 0.0]])


def test_the_farthest_are_left_out_whole() -> None:
    # 20 % of five is one: the last, which is 1 away from (0.5, 0.5).
    assert robust_centre(ROWS, np.ones(5), "trimmed_mean", 0.2).tolist() == [0.5, 0.5]
    # A client that counts double is left out by half.
    half = robust_centre(ROWS, np.array([1.0, 1, 1, 1, 2]), "trimmed_mean", 1 / 6)
    assert half == pytest.approx([(2.0 + 1.0) / 5, (2.0 + 0.0) / 5])


def test_by_the_median_the_nearer_half_counts() -> None:
    # Distances 0, 0.2, 0.2, 0, 1: the first and the fourth, and half of the second.
    centre = [(0.5 + 0.5 + 0.3) / 2.5, (0.5 + 0.5 + 0.2) / 2.5]
    assert robust_centre(ROWS, np.ones(5), "median", 0.3) == pytest.approx(centre)


def test_rows_of_honest_clients_with_other_classes_still_sum_to_one() -> None:
    rows = np.eye(4)
    for rule in ("median", "trimmed_mean"):
        assert robust_centre(rows, np.ones(4), rule, 0.25).sum() == pytest.approx(1)

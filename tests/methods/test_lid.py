"""Local intrinsic dimensionality against estimates worked out by hand."""

import numpy as np
import pytest

from feddiv.methods.fedcorr.lid import CAP, intrinsic_dimensions

LN2 = np.log(2)


def on_a_line(*places: float) -> np.ndarray:
    return np.array(places, dtype=np.float64)[:, None]


def test_two_neighbours_on_a_line() -> None:
    # Distances to the two nearest: 1 and 2, 1 and 1, 1 and 2, 2 and 3. Equal ones have no bound.
    found = intrinsic_dimensions(on_a_line(0, 1, 2, 4), 2)
    expected = [2 / LN2, CAP, 2 / LN2, 2 / np.log(3 / 2)]
    assert found == pytest.approx(expected, rel=1e-4)


def test_the_distances_are_euclidean() -> None:
    points = np.array([[0.0, 0.0], [3.0, 4.0], [0.0, 10.0]])
    # From the origin: 5 and 10. From (3, 4): 5 and sqrt(45). From (0, 10): sqrt(45) and 10.
    expected = [2 / LN2, 2 / np.log(np.sqrt(45) / 5), 2 / np.log(10 / np.sqrt(45))]
    assert intrinsic_dimensions(points, 2) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("neighbours", [3, 20])
def test_with_few_points_all_others_are_neighbours(neighbours: int) -> None:
    # From 0: 1, 2 and 4, so 3 / (ln 4 + ln 2); the 3 is the number of neighbours there are.
    found = intrinsic_dimensions(on_a_line(0, 1, 2, 4), neighbours)
    assert found[0] == pytest.approx(3 / (3 * LN2), rel=1e-4)


def test_equal_points_are_finite() -> None:
    # Distances 0 and 0 count as 1e-12, and the guard of 1e-6 stands above them.
    assert intrinsic_dimensions(np.ones((4, 3)), 2) == pytest.approx(1 / np.log(1e6), rel=1e-4)
    # Distances 0 and 1: log(1e-12) and 0.
    found = intrinsic_dimensions(on_a_line(0, 0, 1), 2)
    assert found[:2] == pytest.approx(2 / np.log(1e12), rel=1e-4)
    assert found[2] == CAP


def test_chunks_do_not_show() -> None:
    points = np.random.default_rng(0).dirichlet(np.ones(5), 600)
    found = intrinsic_dimensions(points, 20)
    distances = np.sort(np.linalg.norm(points[300] - points, axis=1))[1:21]
    assert found[300] == pytest.approx(-20 / np.log(distances / distances[-1]).sum(), rel=1e-3)
    assert 2 < found.mean() < 6, "points on a simplex of five corners fill four dimensions"

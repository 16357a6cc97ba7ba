"""What a visit notes of its scores: counts in bins that all clients share."""

import numpy as np
import pytest

from feddiv.methods.feddiv.diary import SCORE_BINS, score_histogram
from feddiv.methods.feddiv.filter import FilterOptions, NoiseFilter

PAPER = FilterOptions(
    score="cross_entropy",
    scale="minmax",
    aggregate="mean",
    starved_below=0.0,
    no_noise_rule=False,
    second_opinion=False,
)


def test_right_and_wrong_labels_apart() -> None:
    wrong = np.array([False, False, False, True])
    found = score_histogram(np.array([-8.0, -7.9, 0.1, 8.0]), wrong, NoiseFilter(classes=2))
    assert (found["low"], found["high"]) == (-8.0, 8.0)
    assert len(found["right"]) == len(found["wrong"]) == SCORE_BINS
    assert (found["right"][0], found["right"][16]) == (2, 1)  # bins are half a unit wide
    assert found["wrong"][-1] == sum(found["wrong"]) == 1


def test_as_the_filter_sees_them() -> None:
    found = score_histogram(np.array([2.0, 4.0]), None, NoiseFilter(PAPER))
    assert (found["low"], found["high"]) == (0.0, 1.0)
    assert (found["given"][0], found["given"][-1], sum(found["given"])) == (1, 1, 2)


@pytest.mark.parametrize(("score", "place"), [(0.0, 0), (1e9, SCORE_BINS - 1)])
def test_a_score_without_an_upper_end_is_counted_at_the_end(score: float, place: int) -> None:
    absolute = NoiseFilter(PAPER.model_copy(update={"scale": "absolute"}))
    assert score_histogram(np.array([score]), None, absolute)["given"][place] == 1

"""The mean of the last ten, and whether a curve still rises."""

import numpy as np
import pytest

from feddiv.runs.curve import after_warmup, rise


def test_only_measured_rounds_after_warm_up_count() -> None:
    lines = [
        {"stage": "warmup", "accuracy": 0.1},
        {"stage": "preprocess", "accuracy": 0.2},
        {"stage": "finetune", "accuracy": 0.3},
        {"stage": "train", "accuracy": None},
        {"stage": "train", "accuracy": 0.5},
    ]
    assert after_warmup(lines, "accuracy").tolist() == [0.3, 0.5]
    assert after_warmup(lines[:2], "accuracy").tolist() == []


def test_a_straight_line_rises_by_nine_steps() -> None:
    assert rise(0.5 + 0.01 * np.arange(12.0)) == pytest.approx(0.09)


def test_a_rise_may_scatter() -> None:
    # Too high and too low in turn takes .03 * 5 / 82.5 off the slope of .02.
    zigzag = 0.03 * np.array([1, -1] * 5)
    slope = 0.02 - 0.03 * 5 / 82.5
    assert rise(0.3 + 0.02 * np.arange(10) + zigzag) == pytest.approx(9 * slope)


@pytest.mark.parametrize(
    ("curve", "why"),
    [
        (0.5 + 0.01 * np.arange(9.0), "too short"),
        (np.full(20, 0.7), "flat"),
        (0.9 - 0.01 * np.arange(10.0), "falls"),
        (0.5 + 0.002 * np.arange(10.0), "less than two points are nothing"),
        (np.concatenate([0.01 * np.arange(30.0), np.full(10, 0.3)]), "it rose, and is flat now"),
        (np.array([0.5, 0.7, 0.6, 0.5, 0.7, 0.55, 0.75, 0.6, 0.5, 0.75]), "scatter"),
    ],
)
def test_what_does_not_rise(curve: np.ndarray, why: str) -> None:
    assert rise(curve) is None, why


def test_noise_is_hardly_ever_taken_for_a_rise() -> None:
    rng = np.random.default_rng(1)
    for scatter in (0.003, 0.01, 0.05):
        said = [rise(0.7 + scatter * rng.standard_normal(10)) is not None for _ in range(2000)]
        assert np.mean(said) < 0.02

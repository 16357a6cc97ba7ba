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


def test_a_straight_line_rises_by_five_steps() -> None:
    # The standard error of five steps, from the line's own slope, is one step.
    assert rise(0.5 + 0.01 * np.arange(10.0)) == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("curve", "why"),
    [
        (0.5 + 0.01 * np.arange(9.0), "too short"),
        (np.full(20, 0.7), "flat"),
        (0.9 - 0.01 * np.arange(10.0), "falls"),
        (0.5 + 0.001 * np.arange(10.0), "half a point is nothing"),
        # .62 and .60 on average, but a scatter of .055: its standard error is .035.
        (np.array([0.55, 0.65, 0.6, 0.55, 0.65, 0.57, 0.67, 0.62, 0.57, 0.67]), "noise"),
    ],
)
def test_what_does_not_rise(curve: np.ndarray, why: str) -> None:
    assert rise(curve) is None, why


def test_noise_is_hardly_ever_taken_for_a_rise() -> None:
    rng = np.random.default_rng(1)
    for scatter in (0.003, 0.01, 0.05):
        said = [rise(0.7 + scatter * rng.standard_normal(10)) is not None for _ in range(2000)]
        assert np.mean(said) < 0.015

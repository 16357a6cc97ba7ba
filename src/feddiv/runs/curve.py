"""What a run's curve of accuracy says after warm-up: where it stands, whether it still rises."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from feddiv.core.arrays import Array

# Stages in which a method is not yet what it is about; FedCorr calls its own so.
WARMUP: Final = ("warmup", "preprocess")
LAST: Final = 10  # rounds that are averaged, and that a line is laid through
CLEARLY: Final = 0.02  # how far the line has to rise over them, and by how many standard errors
ERRORS: Final = 3.0


def after_warmup(rounds: Sequence[dict[str, Any]], measure: str) -> Array:
    """A measure of every round after warm-up that has it."""
    values = [line[measure] for line in rounds if line.get("stage") not in WARMUP]
    return np.array([value for value in values if value is not None], np.float64)


def mean_of_last(curve: Array, rounds: int = LAST) -> float | None:
    """The mean of the last rounds of a curve, or of all where there are fewer; None of none."""
    return float(curve[-rounds:].mean()) if len(curve) else None


def rise(curve: Array) -> float | None:
    """How far a straight line through the last ten rounds rises, if that is more than noise.

    It counts from two hundredths on, and from three standard errors of the slope: rounds that only
    scatter, however widely, pass in about one case in a hundred.
    """
    if len(curve) < LAST:
        return None
    heights = curve[-LAST:] - curve[-LAST:].mean()
    steps = np.arange(LAST) - (LAST - 1) / 2
    slope = float(steps @ heights / (steps @ steps))
    left = heights - slope * steps
    error = float(np.sqrt(left @ left / (LAST - 2) / (steps @ steps)))
    risen = (LAST - 1) * slope
    return risen if risen > CLEARLY and slope > ERRORS * error else None

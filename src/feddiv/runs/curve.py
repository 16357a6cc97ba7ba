"""What a run's curve of accuracy says after warm-up: where it stands, whether it still rises."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from feddiv.core.arrays import Array

# Stages in which a method is not yet what it is about; FedCorr calls its own so.
WARMUP: Final = ("warmup", "preprocess")
FEW: Final = 5  # rounds that are compared with as many before them
CLEARLY: Final = 0.01  # by how much, and by how many standard errors, a mean has to be higher
ERRORS: Final = 3.0


def after_warmup(rounds: Sequence[dict[str, Any]], measure: str) -> Array:
    """A measure of every round after warm-up that has it."""
    values = [line[measure] for line in rounds if line.get("stage") not in WARMUP]
    return np.array([value for value in values if value is not None], np.float64)


def rise(curve: Array) -> float | None:
    """By how much the last five rounds are above the five before, if that is more than noise.

    It counts from a hundredth on, and from three standard errors of the difference: rounds that
    only scatter, however widely, pass in less than one case in a hundred.
    """
    if len(curve) < 2 * FEW:
        return None
    last, before = curve[-FEW:], curve[-2 * FEW : -FEW]
    higher = float(last.mean() - before.mean())
    error = float(np.sqrt((last.var(ddof=1) + before.var(ddof=1)) / FEW))
    return higher if higher > max(CLEARLY, ERRORS * error) else None

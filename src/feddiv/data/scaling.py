"""What feature vectors are standardised by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from feddiv.core.arrays import Array


@dataclass(frozen=True)
class Scaling:
    """Mean and spread of each feature, float64 [D]."""

    mean: Array
    std: Array

    @property
    def nbytes(self) -> int:
        """What it takes to send it."""
        return int(np.asarray(self.mean).nbytes + np.asarray(self.std).nbytes)

    def fits(self, input_shape: tuple[int, ...]) -> bool:
        """Whether vectors of this shape can be standardised by it."""
        return all(
            isinstance(each, np.ndarray)
            and each.dtype == np.float64
            and each.shape == input_shape
            and len(input_shape) == 1
            and bool(np.isfinite(each).all())
            for each in (self.mean, self.std)
        ) and bool((self.std > 0).all())

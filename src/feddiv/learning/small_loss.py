"""Trust in labels by small losses under one net: the co-divide step of DivideMix and FedRN."""

import numpy as np
import numpy.typing as npt

from feddiv.core.arrays import Array
from feddiv.learning.gaussian_mixture import fit_mixture, two_means_start
from feddiv.learning.score import label_scores, minmax

VARIANCE_FLOOR, TOLERANCE = 5e-4, 1e-2  # of the mixture, as in the released codes


def trust(logits: Array, labels: npt.NDArray[np.int64]) -> Array:
    """w [n]: the chance that a label belongs to the component of small losses under one net.

    All 1 where the losses are all equal, or where there is only one: nothing to divide.
    """
    losses = minmax(label_scores(logits, labels, "cross_entropy"))
    start = two_means_start(losses, variance_floor=VARIANCE_FLOOR)
    if start is None:
        return np.ones(len(labels))
    fitted = fit_mixture(losses, start, variance_floor=VARIANCE_FLOOR, tolerance=TOLERANCE)
    return fitted.p_clean(losses)

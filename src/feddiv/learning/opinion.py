"""A second opinion on labels: what the model's own probabilities say, without any mixture.

If the model is calibrated and a wrong label can be any class, the odds that a label is right are
(1 - delta) q_y : delta / C, with delta the client's share of corrupted labels. While the model is
young, its scores have no two clear modes and a Gaussian fit may cut anywhere; its probabilities
are honest even then. Once it is sure of itself, the fit is the sharper of the two.
"""

import numpy as np
import numpy.typing as npt

from feddiv.learning.mixture import sigmoid

Array = npt.NDArray[np.float64]

STEPS = 100
LEAST, MOST = 1e-3, 0.98  # of delta


def model_log_odds(scores: Array, classes: int) -> Array:
    """Log-odds [n] that labels are right, from their log-odds scores [n] at one client.

    The client's delta is found by EM from these scores alone.
    """
    evidence = np.log(classes) - np.logaddexp(0.0, scores)  # log(C q_y)
    delta = 0.5
    for _ in range(STEPS if len(scores) else 0):
        right = sigmoid(np.log1p(-delta) - np.log(delta) + evidence)
        delta = float(np.clip(1 - right.mean(), LEAST, MOST))
    return np.asarray(np.log1p(-delta) - np.log(delta) + evidence)


def with_second_opinion(p_clean: Array, scores: Array, classes: int) -> Array:
    """p(clean) of the filter and of the model, their log-odds averaged."""
    bounded = np.clip(p_clean, 1e-9, 1 - 1e-9)
    filter_log_odds = np.log(bounded) - np.log1p(-bounded)
    return sigmoid(0.5 * (filter_log_odds + model_log_odds(scores, classes)))

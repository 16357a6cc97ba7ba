"""A second opinion on labels: what the model's own probabilities say, without any mixture.

If the model is calibrated and a wrong label can be any class, the odds that a label is right are
(1 - delta) q_y : delta / C, with delta the client's share of corrupted labels. While the model is
young, its scores have no two clear modes and a Gaussian fit may cut anywhere; its probabilities
are honest even then. Once it is sure of itself, the fit is the sharper of the two.

Models that were trained with MixUp are less sure than they should be, so that clients with many
wrong labels look clean. One temperature for all mends that: the one under which the given labels of
all clients are most likely. Every client uploads their log-likelihood for each of a few
temperatures, and the server adds them up.
"""

import numpy as np

from feddiv.core.arrays import Array, Labels
from feddiv.learning.gaussian_mixture import sigmoid
from feddiv.learning.score import log_softmax

STEPS = 100
LEAST, MOST = 1e-3, 0.98  # of delta
# By which logits are divided: from a model's own sureness to five times as sure.
TEMPERATURES = (1.0, 0.8, 0.65, 0.5, 0.4, 0.3, 0.25, 0.2)


def model_log_odds(scores: Array, classes: int) -> Array:
    """Log-odds [n] that labels are right, from their log-odds scores [n] at one client.

    The client's delta is found by EM from these scores alone.
    """
    evidence = np.log(classes) - np.logaddexp(0.0, scores)  # log(C q_y)
    delta = _corrupted(evidence)
    return np.asarray(np.log1p(-delta) - np.log(delta) + evidence)


def p_right(scores: Array, classes: int) -> Array:
    """The probability [n] that labels are right, from their log-odds scores [n] at one client.

    A label that was drawn at random is right by chance as often as the model says.
    """
    drawn = sigmoid(-model_log_odds(scores, classes))
    return np.asarray(1 - drawn * sigmoid(scores))


def _corrupted(evidence: Array) -> Array:
    """A client's delta [...] by EM, from log(C q_y) [..., n]; all at once, as clients are small."""
    delta = np.full(evidence.shape[:-1], 0.5)
    for _ in range(STEPS if evidence.shape[-1] else 0):
        right = sigmoid((np.log1p(-delta) - np.log(delta))[..., None] + evidence)
        before, delta = delta, np.clip(1 - right.mean(axis=-1), LEAST, MOST)
        if np.array_equal(before, delta):
            break  # it would stay there
    return delta


def log_likelihoods(logits: Array, labels: Labels) -> Array:
    """Log-likelihood of one client's given labels [n] at each temperature, under logits [n, C]."""
    classes, rows = logits.shape[1], np.arange(len(labels))
    log_p = [log_softmax(logits / temperature)[rows, labels] for temperature in TEMPERATURES]
    evidence = np.log(classes) + np.stack(log_p)
    delta = _corrupted(evidence)[:, None]
    mixed = np.logaddexp(np.log1p(-delta) + evidence, np.log(delta))
    return np.asarray((mixed - np.log(classes)).sum(axis=1))


def least_log_likelihood(classes: int) -> float:
    """The smallest that one label can add, whatever the model says."""
    return float(np.log(LEAST) - np.log(classes))


def best_temperature(total: Array) -> float:
    """The temperature under which the labels of all clients are most likely; 1 before any."""
    return TEMPERATURES[int(np.argmax(total))]


def with_second_opinion(p_clean: Array, scores: Array, classes: int) -> Array:
    """p(clean) of the filter and of the model, their log-odds averaged."""
    bounded = np.clip(p_clean, 1e-9, 1 - 1e-9)
    filter_log_odds = np.log(bounded) - np.log1p(-bounded)
    return sigmoid(0.5 * (filter_log_odds + model_log_odds(scores, classes)))

"""How suspicious a given label is: one number per sample from the model's logits, high = bad."""

from typing import Literal

import numpy as np
import numpy.typing as npt

from feddiv.core.arrays import Array

ScoreName = Literal["cross_entropy", "bounded", "log_odds"]

LOG_ODDS_CLIP = 8.0
BIAS_FLOOR = 1e-8


def log_softmax(logits: Array) -> Array:
    """Log-probabilities along the last axis."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


def debias(logits: Array, bias: Array | None, strength: float = 1.0) -> Array:
    """Logits less `strength` times the log of the model's mean prediction `bias` [C], if given."""
    if bias is None:
        return logits
    return np.asarray(logits - strength * np.log(np.maximum(bias, BIAS_FLOOR)))


def label_scores(logits: Array, labels: npt.NDArray[np.int64], score: ScoreName) -> Array:
    """Scores [n] of the given labels [n] under logits [n, C] (de-biased already, if wanted).

    cross_entropy: -log q_y. bounded: cross-entropy of the softmax output taken as logits, close
    to 1 - q_y up to a shift. log_odds: log(1-q_y) - log q_y, clipped; 0 = even odds.
    """
    log_q = log_softmax(logits)
    rows = np.arange(len(labels))
    if score == "cross_entropy":
        return np.asarray(-log_q[rows, labels])
    if score == "bounded":
        q = np.exp(log_q)
        return np.asarray(np.log(np.exp(q).sum(axis=1)) - q[rows, labels])
    others = log_q.copy()
    others[rows, labels] = -np.inf
    odds = np.logaddexp.reduce(others, axis=1) - log_q[rows, labels]
    return np.asarray(np.clip(odds, -LOG_ODDS_CLIP, LOG_ODDS_CLIP))


def score_range(score: ScoreName, classes: int) -> tuple[float, float] | None:
    """The range in which a score lies whatever the model says; None where there is no upper end."""
    if score == "log_odds":
        return -LOG_ODDS_CLIP, LOG_ODDS_CLIP
    if score == "bounded":
        top = float(np.log(np.e + classes - 1))
        return top - 1.0, top
    return None


def minmax(scores: Array) -> Array:
    """Scores scaled to [0, 1]; all 0.5 where they are all equal."""
    if not len(scores):
        return scores
    low, high = scores.min(), scores.max()
    return np.full_like(scores, 0.5) if low == high else (scores - low) / (high - low)

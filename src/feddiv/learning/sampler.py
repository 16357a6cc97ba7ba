"""The predictive-consistency sampler (PCS): keep samples on which two models agree."""

from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from feddiv.learning.score import debias, log_softmax
from feddiv.options import Options

Array = npt.NDArray[np.float64]


class SamplerOptions(Options):
    """How the sampler chooses, epoch by epoch or visit by visit."""

    enabled: bool = True
    timing: Literal["epoch", "visit"] = "epoch"
    after_visits: int = Field(0, ge=0)  # a client's first visits train on clean samples only
    xi: float = Field(0.5, ge=0)
    momentum: float = Field(0.2, ge=0, le=1)
    confident_only: float = Field(0.0, ge=0, le=1)  # p-hat averages samples above this confidence


def debiased_labels(logits: Array, bias: Array, xi: float) -> npt.NDArray[np.int64]:
    """y-tilde = argmax[f(x) - xi log p-hat] (Eq. Logit-Debias); logits [n, C], bias [C]."""
    return np.asarray(debias(logits, bias, xi).argmax(axis=1))


def update_bias(bias: Array, logits: Array, options: SamplerOptions) -> Array:
    """p-hat <- m p-hat + (1-m) mean softmax over the client's data (Eq. Momentum-p).

    With `confident_only` the mean is over samples whose de-biased confidence exceeds it; where
    there is none, p-hat stays.
    """
    probabilities = np.exp(log_softmax(logits))
    if options.confident_only > 0:
        debiased = np.exp(log_softmax(debias(logits, bias, options.xi)))
        confident = debiased.max(axis=1) > options.confident_only
        probabilities = probabilities[confident]
    if not len(probabilities):
        return bias
    return np.asarray(options.momentum * bias + (1 - options.momentum) * probabilities.mean(axis=0))

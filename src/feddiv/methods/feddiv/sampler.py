"""The predictive-consistency sampler (PCS): keep samples on which two models agree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import torch
from pydantic import Field

from feddiv.core.arrays import Array, Labels
from feddiv.core.options import Options
from feddiv.learning.score import debias, log_softmax
from feddiv.learning.train import Selection
from feddiv.methods.feddiv.division import Division


class SamplerOptions(Options):
    """How the sampler chooses, epoch by epoch or visit by visit."""

    enabled: bool = True  # else all clean and relabelled samples train
    timing: Literal["epoch", "visit"] = "epoch"  # how often it chooses
    after_visits: int = Field(
        0, ge=0, le=1_000_000
    )  # a client's first visits train on clean samples only
    xi: float = Field(0.5, ge=0)  # how strongly the local model is de-biased by p-hat
    momentum: float = Field(0.2, ge=0, le=1)  # of p-hat, the client's mean prediction
    confident_only: float = Field(0.0, ge=0, le=1)  # p-hat averages samples above this confidence


def debiased_labels(logits: Array, bias: Array, xi: float) -> Labels:
    """y-tilde = argmax[f(x) - xi log p-hat] (Eq. 9); logits [n, C], bias [C]."""
    return np.asarray(debias(logits, bias, xi).argmax(axis=1))


def update_bias(bias: Array, logits: Array, options: SamplerOptions) -> Array:
    """p-hat <- m p-hat + (1-m) mean softmax over the client's data (Eq. 12).

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


class Reselection:
    """Which samples each epoch trains on (Eq. 11): D_k, D_clean, D_clean + D_relab, or D_resel.

    `logits` are the global model's. `relabelled_train` says whether relabelled samples may train
    in this visit, `stale` has the client's own de-biased labels of its last visit, for
    `timing=visit`. Samples that are `trusted`, as an expert vouches for their labels, always train.
    `local_logits(rows)` asks the model being trained.
    """

    def __init__(
        self,
        options: SamplerOptions,
        division: Division,
        logits: Array,
        bias: Array,
        *,
        visits: int,
        relabelled_train: bool,
        stale: Labels | None,
        trusted: torch.Tensor | None = None,
        local_logits: Callable[[torch.Tensor], Array],
    ) -> None:
        self.options, self.bias, self.logits = options, bias, logits
        self.predicted, self.labels = logits.argmax(axis=1), division.labels
        self.local_logits = local_logits
        self.kept: list[Labels] = []

        early = options.enabled and visits < options.after_visits
        sampling = options.enabled and division.noisy_client and not early
        self.every_epoch = sampling and options.timing == "epoch"
        # Which samples the sampler trusts at the start of the visit.
        self.consistent = np.ones_like(division.clean)
        if options.enabled and options.timing == "epoch":
            self.consistent = debiased_labels(logits, bias, options.xi) == self.predicted
        elif options.enabled and stale is not None:
            self.consistent = stale == self.predicted
        self.trusted = np.zeros_like(division.clean) if trusted is None else trusted.numpy()
        self.consistent = self.consistent | self.trusted
        candidates = division.candidates
        if division.noisy_client and (early or not relabelled_train):
            candidates = division.clean
        if sampling and options.timing == "visit":
            candidates = candidates & self.consistent
        self.rows = np.flatnonzero(candidates)

    def __len__(self) -> int:
        return len(self.rows)

    def __call__(self, epoch: int) -> Selection:
        """The samples on which y-hat and y-tilde agree (Eq. 10), with their labels."""
        rows = self.rows
        if self.every_epoch and len(rows):
            # In the first epoch the local model still is the global one, whose logits are known.
            fresh = self.logits[rows] if epoch == 0 else self.local_logits(torch.from_numpy(rows))
            agree = debiased_labels(fresh, self.bias, self.options.xi) == self.predicted[rows]
            rows = rows[agree | self.trusted[rows]]
        self.kept.append(rows)
        return torch.from_numpy(rows), torch.from_numpy(self.labels[rows])

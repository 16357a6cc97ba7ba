"""Step 2 of a visit: divide a client's samples into clean, relabelled and left out."""

from dataclasses import dataclass

import numpy as np
from pydantic import Field

from feddiv.core.arrays import Array, Labels, Mask
from feddiv.core.options import Options
from feddiv.learning.score import log_softmax


class RelabelOptions(Options):
    """What becomes of samples whose label the filter rejects."""

    enabled: bool = True  # else they are left out of the visit
    confidence: float = Field(0.75, ge=0, le=1)  # zeta: how sure the model has to be
    persist: bool = False  # keep the new label for good, as the released code does
    min_noise: float = Field(0.1, ge=0, le=1)  # relabelled samples train above this noise level


@dataclass(frozen=True)
class Division:
    """Masks over a client's samples [n], and the label that each would train with [n]."""

    clean: Mask
    relabelled: Mask
    labels: Labels
    noise_level: float  # delta-hat, the share of labels that were dropped, of those in question
    noisy_client: bool
    pardoned: Mask  # trains as clean although its label would have been dropped

    @property
    def candidates(self) -> Mask:
        """What may be trained on: all of a clean client, else the clean and the relabelled."""
        if not self.noisy_client:
            return np.ones_like(self.clean)
        return self.clean | self.relabelled

    def trusted(self, p_clean: Array) -> float:
        """How many labels this client trains on that are expected to be right."""
        return float(p_clean[self.clean].sum() + self.relabelled.sum())


def divide(
    trains: Mask,
    logits: Array,
    labels: Labels,
    *,
    pardoned: Mask | None = None,
    trusted: Mask | None = None,
    clean_client_below: float,
    relabelling: RelabelOptions,
) -> Division:
    """Split by what `trains` with its label; on a noisy client relabel what the model is sure of.

    (Eq. 7 and 8.) Labels that are `pardoned` train as clean ones, but do not make the client
    a clean one. Labels that an expert vouches for (`trusted`) are clean, and say nothing of the
    others: a client does not become a clean one because its worst labels were corrected.
    """
    asked = ~trains if trusted is None else ~trains[~trusted]
    noise_level = float(asked.mean()) if len(asked) else 0.0
    noisy_client = noise_level > clean_client_below
    spared = np.zeros_like(trains) if pardoned is None else pardoned & ~trains
    clean = trains | spared
    relabelled = np.zeros_like(clean)
    if noisy_client and relabelling.enabled:
        relabelled = relabel(np.exp(log_softmax(logits)), ~clean, relabelling.confidence)
    predicted = logits.argmax(axis=1)
    return Division(
        clean,
        relabelled,
        np.where(relabelled, predicted, labels),
        noise_level,
        noisy_client,
        spared,
    )


def relabel(probabilities: Array, noisy: Mask, confidence: float) -> Mask:
    """Which noisy samples [n] get the label that the model predicts, softmax [n, C] (Eq. 8)."""
    return np.asarray(noisy & (probabilities.max(axis=1) >= confidence))

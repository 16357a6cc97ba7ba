"""A method's opinion of a client's given labels."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from feddiv.data import Samples
from feddiv.learning.score import log_softmax


@dataclass(frozen=True)
class Corrected:
    """The labels that a client trains on once it has corrected some for good, and p(clean)."""

    labels: npt.NDArray[np.int64]
    p_clean: npt.NDArray[np.float64]


@dataclass(frozen=True)
class Assessment:
    """A method's opinion of one client's given labels; it stays at the client.

    `p_clean` is what the method decides by, `second_opinion` a p(clean) that was found in another
    way, where the method has one: label audits believe neither more than the other. `confidence` is
    the probability that the predicted label is right, `held_out` the opinion of the samples that
    the client keeps out of training.
    """

    predicted: npt.NDArray[np.int64]
    p_clean: npt.NDArray[np.float64] | None = None  # None: the method has no opinion
    scores: npt.NDArray[np.float64] | None = None
    corrected: Corrected | None = None  # None: the client trains on its given labels
    second_opinion: npt.NDArray[np.float64] | None = None
    confidence: npt.NDArray[np.float64] | None = None
    held_out: Assessment | None = None

    @classmethod
    def of(
        cls,
        logits: npt.NDArray[np.float64],
        p_clean: npt.NDArray[np.float64] | None = None,
        scores: npt.NDArray[np.float64] | None = None,
    ) -> Assessment:
        """With the predictions and the confidence of a model's logits [n, C]."""
        confidence = np.exp(log_softmax(logits).max(axis=1))
        return cls(logits.argmax(axis=1), p_clean, scores, confidence=confidence)

    def trusting(self, samples: Samples) -> Assessment:
        """The same, but for labels of these samples that an expert vouches for: they are right."""
        if samples.trusted is None:
            return self

        def sure(values: npt.NDArray[np.float64] | None) -> npt.NDArray[np.float64] | None:
            return None if values is None else samples.believed(values)

        corrected = self.corrected
        if corrected is not None:
            labels = samples.kept(corrected.labels)
            corrected = Corrected(labels, samples.believed(corrected.p_clean))
        return replace(
            self,
            p_clean=sure(self.p_clean),
            second_opinion=sure(self.second_opinion),
            corrected=corrected,
        )

    def last(self, count: int) -> Assessment:
        """That of the last so many samples."""
        start = len(self.predicted) - count

        def end(values: npt.NDArray[np.float64] | None) -> npt.NDArray[np.float64] | None:
            return None if values is None else values[start:]

        return Assessment(
            self.predicted[start:],
            end(self.p_clean),
            end(self.scores),
            second_opinion=end(self.second_opinion),
            confidence=end(self.confidence),
        )

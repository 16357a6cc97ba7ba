"""Test accuracy: overall, per class, balanced."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from feddiv.errors import Diverged
from feddiv.learning.score import log_softmax
from feddiv.methods.contract import Diary

MEASURES = ("test_accuracy", "balanced_accuracy", "test_loss", "per_class_accuracy")


@dataclass(frozen=True)
class Evaluation:
    """Test labels [N] that logits are measured against, every so many turns."""

    labels: npt.NDArray[np.int64]
    classes: int
    every: int = 1

    def due(self, turn: int) -> bool:
        """Whether this turn's model is measured; the last one's always is."""
        return turn % self.every == 0

    def measure(self, logits: npt.NDArray[np.float32]) -> Diary:
        """Accuracy, balanced accuracy over the classes that occur, per class, mean loss."""
        if not np.isfinite(logits).all():
            raise Diverged("the global model's outputs are not finite: try a smaller train.lr")
        right = logits.argmax(axis=1) == self.labels
        counts = np.bincount(self.labels, minlength=self.classes)
        hits = np.bincount(self.labels, weights=right, minlength=self.classes)
        per_class = [float(h / n) if n else None for h, n in zip(hits, counts, strict=True)]
        log_p = log_softmax(logits.astype(np.float64))
        return {
            "test_accuracy": float(right.mean()),
            "balanced_accuracy": float(np.mean([a for a in per_class if a is not None])),
            "test_loss": float(-log_p[np.arange(len(right)), self.labels].mean()),
            "per_class_accuracy": per_class,
        }

"""How good a filter, a labelling or a model is, where the true labels are known."""

from dataclasses import asdict, dataclass

import numpy as np

from feddiv.core.arrays import Array, Labels, Mask


@dataclass(frozen=True)
class Confusion:
    """Counts of a filter's decisions; a wrong label is the positive case."""

    flagged_wrong: int
    flagged_right: int
    kept_wrong: int
    kept_right: int

    @classmethod
    def of(cls, flagged: Mask, wrong: Mask) -> "Confusion":
        """Count decisions [n] against the truth [n]."""
        return cls(
            int((flagged & wrong).sum()),
            int((flagged & ~wrong).sum()),
            int((~flagged & wrong).sum()),
            int((~flagged & ~wrong).sum()),
        )

    def __add__(self, other: "Confusion") -> "Confusion":
        return Confusion(*(a + b for a, b in zip(self.counts(), other.counts(), strict=True)))

    def counts(self) -> tuple[int, int, int, int]:
        """The four counts in the order of the fields."""
        return self.flagged_wrong, self.flagged_right, self.kept_wrong, self.kept_right

    def measures(self) -> dict[str, float | None]:
        """Accuracy, precision, recall, F1; None where the denominator is empty."""
        flagged = self.flagged_wrong + self.flagged_right
        wrong = self.flagged_wrong + self.kept_wrong
        return {
            "accuracy": _ratio(self.flagged_wrong + self.kept_right, sum(self.counts())),
            "precision": _ratio(self.flagged_wrong, flagged),
            "recall": _ratio(self.flagged_wrong, wrong),
            "f1": _ratio(2 * self.flagged_wrong, flagged + wrong),
        }

    def as_dict(self) -> dict[str, int]:
        """The counts by name, for a record."""
        return asdict(self)


def confusion_cells(truth: Labels, labels: Labels) -> list[list[int]]:
    """The non-empty cells of a confusion matrix, as [true class, label, count].

    >>> confusion_cells(np.array([0, 0, 1]), np.array([0, 0, 2]))
    [[0, 0, 2], [1, 2, 1]]
    """
    pairs, counts = np.unique(np.stack([truth, labels], axis=1), axis=0, return_counts=True)
    return [[int(a), int(b), int(n)] for (a, b), n in zip(pairs, counts, strict=True)]


def auroc(p_clean: Array, wrong: Mask) -> float | None:
    """Chance that a wrong label gets a lower p(clean) than a right one; ties count half."""
    positives, negatives = int(wrong.sum()), int((~wrong).sum())
    if not positives or not negatives:
        return None
    _, group, sizes = np.unique(-p_clean, return_inverse=True, return_counts=True)
    last = np.cumsum(sizes)
    ranks = (last - (sizes - 1) / 2)[group]
    return float((ranks[wrong].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def filter_quality(p_clean: Array, wrong: Mask) -> dict[str, float | None]:
    """Confusion measures at p(clean) < 1/2, and AUROC."""
    measures = Confusion.of(p_clean < 0.5, wrong).measures()
    return {**measures, "auroc": auroc(p_clean, wrong)}


def _ratio(part: float, whole: float) -> float | None:
    return float(part / whole) if whole else None

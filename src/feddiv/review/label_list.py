"""The labels of one site in the order that they are gone through."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from feddiv.audits.estimate import Estimate
from feddiv.audits.label_audit import LabelAudit
from feddiv.core.arrays import Array, Labels, Mask
from feddiv.data.corrections import CORRECTIONS, Subject, listed_subject
from feddiv.review.looks import Looks

DIGITS: Final = 4  # of a quality on the page


@dataclass(frozen=True, eq=False)
class LabelList:
    """Everything that the page knows of a site's labels but what was decided about them.

    Arrays are [n], the worst label first; a sample is known to the page by its place in them, so
    that no name or path ever comes from a browser. `predicted`, `quality` and `confidence` are None
    where nobody has judged. `folder` is the site's own, in which decisions are kept.
    """

    site: str
    folder: Path
    classes: tuple[str, ...]
    names: tuple[str, ...]
    given: Labels
    predicted: Labels | None
    quality: Array | None
    confidence: Array | None
    issues: Mask
    estimate: Estimate | None
    looks: Looks
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.names)

    @property
    def corrections(self) -> Path:
        """The file of decisions."""
        return self.folder / CORRECTIONS

    @property
    def subject(self) -> Subject:
        """What decisions can be about, as the file of decisions is now."""
        given = [self.classes[label] for label in self.given]
        return listed_subject(self.names, given, self.classes, self.corrections)

    def described(self) -> dict[str, Any]:
        """The list as JSON, by column: 20,000 labels are half a megabyte."""
        return {
            "site": self.site,
            "classes": list(self.classes),
            "kind": self.looks.kind,
            "given": self.given.tolist(),
            "predicted": None if self.predicted is None else self.predicted.tolist(),
            "quality": _rounded(self.quality),
            "confidence": _rounded(self.confidence),
            "issues": int(self.issues.sum()),
            "expected": self._expected(),
            "notes": list(self.notes),
            "file": str(self.corrections),
        }

    def _expected(self) -> list[int] | None:
        """How many labels are wrong by the audit's estimate: about, from, to."""
        if self.estimate is None:
            return None
        share, low, high = self.estimate.share, self.estimate.low, self.estimate.high
        about = round(share * len(self))
        return [about, *(about if at is None else round(at * len(self)) for at in (low, high))]


def label_list(audit: LabelAudit, folder: Path, looks: Looks) -> LabelList:
    """The list of an audit. Samples that share a name are left out: no row of a table of
    decisions could say which of them it is about."""
    order = audit.ranking
    names = [audit.name(int(number)) for number in order]
    counts = Counter(names)
    kept = np.array([counts[name] == 1 for name in names], dtype=np.bool_)
    notes = audit.missing
    if left := int((~kept).sum()):
        notes = (*notes, f"{left:,} samples share their names with others and are left out.")
    places = order[kept]
    opinion, judged = audit.opinion, audit.judged
    confidence = None if opinion is None else opinion.confidence
    return LabelList(
        site=audit.site,
        folder=folder,
        classes=audit.classes,
        names=tuple(name for name, one in zip(names, kept, strict=True) if one),
        given=audit.given[places],
        predicted=None if opinion is None else np.asarray(opinion.predicted)[places],
        quality=None if judged is None else judged.quality[places],
        confidence=None if confidence is None else confidence[places],
        issues=audit.is_label_issue[places],
        estimate=audit.estimate,
        looks=looks.ordered(places),
        notes=notes,
    )


def _rounded(values: Array | None) -> list[float] | None:
    return None if values is None else np.asarray(values, np.float64).round(DIGITS).tolist()

"""Audits small enough to follow by hand."""

import numpy as np

from feddiv.audits.label_audit import LabelAudit
from feddiv.methods.contract import Assessment

GIVEN = np.array([0, 1, 1, 2, 2, 2])
PREDICTED = np.array([0, 2, 1, 1, 1, 2])
QUALITY = np.array([0.9, 0.1, 0.95, 0.05, 0.1, 0.9])  # 3 of 6 are wrong
CONFIDENCE = np.array([0.9, 0.99, 0.9, 0.6, 0.97, 0.9])


def made(classes=("cat", "dog", "eel"), name=lambda row: f"{row}.png", **kind):
    """Samples 3, 1 and 4 are the issues: eel for dog twice, dog for eel once."""
    opinion = Assessment(PREDICTED, QUALITY, second_opinion=QUALITY.copy(), confidence=CONFIDENCE)
    return LabelAudit("north", tuple(classes), GIVEN, kind.pop("opinion", opinion), name, **kind)

"""True classes against labels: given, filtered, after the sampler (Figure 8)."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from feddiv.learning.quality import confusion_cells
from feddiv.reports.client_quality import HeldLabels
from feddiv.reports.record import RunRecord, number

Cells = list[list[int]]  # non-empty cells: true class, label, count
KEYS: Final = ("labels_filtered", "labels_reselected")
REPRESENTATIVE: Final = 5


@dataclass(frozen=True)
class Confusions:
    """One client's labels at its last visit; None for what the method does not note."""

    round: float
    given: Cells
    filtered: Cells | None
    reselected: Cells | None


def confusions(record: RunRecord) -> dict[int, Confusions]:
    """Those of all clients whose visits noted them and whose true labels are known."""
    draw, found = record.draw, {}
    if draw is None or draw.truth is None:
        return {}
    for client, line in sorted(record.visits.last.items()):
        noted = [_cells(line.get(key)) for key in KEYS]
        if client < 0 or client >= len(draw.parts) or noted[0] is None:
            continue
        part = draw.parts[client]
        given = confusion_cells(draw.truth[part], draw.given[part])
        when = number(line.get("round")) or 0.0
        found[client] = Confusions(when, given, noted[0], noted[1])
    return found


def _cells(value: object) -> Cells | None:
    if not isinstance(value, list):
        return None
    for cell in value:
        if not isinstance(cell, list) or len(cell) != 3 or any(type(n) is not int for n in cell):
            return None
    return value


def representative(clients: list[HeldLabels], known: set[int]) -> list[int]:
    """Five clients from the cleanest to the noisiest, of those that are known."""
    there = [each.client for each in clients if each.client in known]
    if not there:
        return []
    places = np.linspace(0, len(there) - 1, min(REPRESENTATIVE, len(there))).round()
    return [there[int(place)] for place in places]

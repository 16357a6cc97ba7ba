"""How well each client's labels are judged, against how noisy it truly is (Figures 3 and 6)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from feddiv.learning.quality import Confusion
from feddiv.reports.record import RunRecord, number

MEASURES: Final = ("accuracy", "precision", "recall")


@dataclass(frozen=True)
class HeldLabels:
    """One client of a draw; `wrong` is the share of its labels that are, None where unknown."""

    client: int
    name: str
    samples: int
    wrong: float | None

    @property
    def clean(self) -> bool:
        """Whether all its labels are known to be right."""
        return self.wrong == 0


@dataclass(frozen=True)
class Quality:
    """A filter's decisions on one client; measures are None where the truth is not known.

    Precision and recall are None where nothing is wrong, precision also where nothing is flagged.
    """

    flagged: float
    accuracy: float | None = None
    precision: float | None = None
    recall: float | None = None


def clients_of(record: RunRecord) -> list[HeldLabels]:
    """The clients of its draw, by how noisy they are; nobody where the data are at sites."""
    draw = record.draw
    if draw is None:
        return []
    held = []
    for client, part in enumerate(draw.parts):
        wrong = None
        if draw.truth is not None and len(part):
            wrong = float((draw.given[part] != draw.truth[part]).mean())
        name = draw.names[client] if draw.names else str(client)
        held.append(HeldLabels(client, name, len(part), wrong))
    return sorted(held, key=lambda each: (each.wrong is None, each.wrong or 0.0, each.client))


def by_client(record: RunRecord) -> dict[int, Quality]:
    """The filter's quality at each client: at the end of the run, else at its last visit."""
    table = record.assessment
    if "label_quality" in table:
        flagged, truth = table["label_quality"] < 0.5, table.get("true_label")
        wrong = None if truth is None else table["given_label"] != truth
        return {
            int(client): _judged(flagged[rows], None if wrong is None else wrong[rows])
            for client, rows in rows_by_client(table["client"]).items()
        }
    if record.ended:
        return {}
    seen = {client: _seen(line) for client, line in record.visits.last.items()}
    return {client: quality for client, quality in seen.items() if quality is not None}


def rows_by_client(clients: npt.NDArray[Any]) -> dict[int, npt.NDArray[np.int64]]:
    """Rows of an assessment by client, in their order."""
    order = np.argsort(clients, kind="stable")
    found, starts = np.unique(clients[order], return_index=True)
    parts = np.split(order, starts[1:])
    return {int(client): rows for client, rows in zip(found, parts, strict=True)}


def _judged(flagged: npt.NDArray[np.bool_], wrong: npt.NDArray[np.bool_] | None) -> Quality:
    share = float(flagged.mean())
    if wrong is None:
        return Quality(share)
    return _measured(share, Confusion.of(flagged, wrong))


def _measured(flagged: float, counts: Confusion) -> Quality:
    measures = counts.measures()
    if not counts.flagged_wrong + counts.kept_wrong:
        # What is flagged is all right then, however good the filter: that is no precision of 0.
        measures = {**measures, "precision": None}
    return Quality(flagged, *(measures[key] for key in MEASURES))


def _seen(line: Mapping[str, Any]) -> Quality | None:
    """The same from the diary of a visit."""
    level, counts = number(line.get("noise_level")), line.get("filter")
    if level is None:
        return None
    keys = Confusion.__dataclass_fields__
    if not isinstance(counts, Mapping) or any(type(counts.get(key)) is not int for key in keys):
        return Quality(level)
    return _measured(level, Confusion(**{key: counts[key] for key in keys}))


def hardest(clients: list[HeldLabels], judged: Mapping[int, Quality], *, clean: bool) -> int | None:
    """The clean, or the noisy, client with the lowest accuracy; of several the noisiest."""
    chosen = [
        (quality.accuracy, -each.wrong, each.client)
        for each in clients
        if each.wrong is not None
        and each.clean is clean
        and (quality := judged.get(each.client)) is not None
        and quality.accuracy is not None
    ]
    return min(chosen)[2] if chosen else None


def means(
    clients: list[HeldLabels], judged: Mapping[int, Quality], *, clean: bool
) -> dict[str, float | None]:
    """The mean of each measure over the clean, or the noisy, clients that have it."""
    chosen = [judged[c.client] for c in clients if c.clean is clean and c.client in judged]
    result: dict[str, float | None] = {}
    for key in MEASURES:
        values = [value for each in chosen if (value := getattr(each, key)) is not None]
        result[key] = sum(values) / len(values) if values else None
    return result

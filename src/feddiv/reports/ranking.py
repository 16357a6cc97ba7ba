"""p(clean) of a client's labels in the order of their scores (Figure 7)."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from feddiv.core.arrays import Array
from feddiv.reports.client_quality import rows_by_client
from feddiv.reports.record import RunRecord


@dataclass(frozen=True)
class Ranking:
    """A client's labels, the least suspicious first; `rank` counts all, some may be left out."""

    rank: npt.NDArray[np.int64]
    p_clean: Array
    wrong: npt.NDArray[np.bool_] | None
    samples: int


def rankings(record: RunRecord, most: int) -> dict[int, Ranking]:
    """Those of all clients, of each so many labels at most; none without an opinion.

    A method without scores is ranked by its opinion.
    """
    table = record.assessment
    if "label_quality" not in table:
        return {}
    p_clean = table["label_quality"]
    score = table.get("score", -p_clean)
    truth = table.get("true_label")
    wrong = None if truth is None else table["given_label"] != truth
    result = {}
    for client, rows in rows_by_client(table["client"]).items():
        ordered = rows[np.lexsort((-p_clean[rows], score[rows]))]
        count = len(ordered)
        rank = np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))
        chosen = ordered[rank]
        result[client] = Ranking(
            rank, p_clean[chosen], None if wrong is None else wrong[chosen], count
        )
    return result

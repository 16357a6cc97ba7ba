"""All sites of a run in one table: how many labels each has, how many look wrong, which ones."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from feddiv.audits.clients import opinion_of
from feddiv.audits.label_audit import LabelAudit, joined
from feddiv.audits.words import share_in_words
from feddiv.core.terminal import NAME, shown
from feddiv.data import Draw
from feddiv.runs.run import Run
from feddiv.runs.summary import HELD_OUT

COLUMNS: Final = ("site", "samples", "look wrong", "issues", "commonest confusions")
MOST: Final = 12  # rows of a table on a terminal
PAIRS: Final = 2


def site_rows(audits: Sequence[LabelAudit]) -> list[tuple[str, ...]]:
    """A row for each site, in their order."""
    return [_row(audit) for audit in audits]


def worst_sites(audits: Sequence[LabelAudit]) -> list[LabelAudit]:
    """As many as a terminal shows; of more, those with the largest share of wrong labels."""
    if len(audits) <= MOST:
        return list(audits)

    def share(audit: LabelAudit) -> float:
        return 0.0 if audit.estimate is None else audit.estimate.share

    return sorted(audits, key=share, reverse=True)[:MOST]


def _row(audit: LabelAudit) -> tuple[str, ...]:
    pairs = [
        f"{shown(given, NAME)}→{shown(said, NAME)} ({count:,})"
        for given, said, count in audit.confusions()[:PAIRS]
    ]
    estimate = audit.estimate
    return (
        shown(audit.site, NAME),
        f"{len(audit):,}",
        "-" if estimate is None or not len(audit) else share_in_words(estimate),
        "-" if estimate is None else f"{int(audit.is_label_issue.sum()):,}",
        ", ".join(pairs),
    )


def audits_in_short(run: Run) -> list[LabelAudit]:
    """Those of a finished run's clients without names of samples; none where they are elsewhere."""
    columns = run.assessment
    if "label_quality" not in columns:
        return []
    names = Draw.load(run.folder / "draw.npz").names
    audits = []
    for client in np.unique(columns["client"]).tolist():
        opinion = opinion_of(columns, client)
        given = [columns["given_label"][columns["client"] == client]]
        if opinion.held_out is not None:
            mine = columns[f"{HELD_OUT}client"] == client
            given.append(columns[f"{HELD_OUT}given_label"][mine])
            opinion = joined([opinion, opinion.held_out])
        audits.append(
            LabelAudit(
                site=names[client] if names else f"client {client}",
                classes=tuple(map(str, run.summary["classes"])),
                given=np.concatenate(given),
                opinion=opinion,
            )
        )
    return audits

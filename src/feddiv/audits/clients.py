"""The audit of a client of a draw: the same in a simulation and at a real site."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from feddiv.audits.label_audit import LabelAudit, joined
from feddiv.audits.sample_views import ShownSamples, views_of
from feddiv.config.experiment import Experiment
from feddiv.core.arrays import Rows
from feddiv.data import Dataset, Draw
from feddiv.methods.contract import Assessment
from feddiv.runs.summary import HELD_OUT

Columns = Mapping[str, npt.NDArray[Any]]
NO_OPINION = (
    "{method} has no opinion of single labels, or none yet, so nothing says which of them are "
    "wrong: the list has only what its model predicts. A method with a filter has one after its "
    "warm-up, such as feddiv; `feddiv audit --model` asks a filter alone."
)
EARLY = 10  # rounds
YOUNG = (
    "The run had {rounds} only. A model this young may take right labels for wrong ones, at "
    "sites without a wrong label too: believe neither the share nor its interval before a longer "
    "run has said the same."
)


def young(experiment: Experiment) -> tuple[str, ...]:
    """A line where the model of a run has trained, and not for long."""
    if experiment.rounds >= EARLY or not experiment.build_method().trains:
        return ()
    rounds = f"{experiment.rounds} rounds" if experiment.rounds > 1 else "one round"
    return (YOUNG.format(rounds=rounds),)


def client_audit(
    dataset: Dataset,
    draw: Draw,
    client: int,
    opinion: Assessment | None,
    method: str,
    missing: tuple[str, ...] = (),
    site: str | None = None,
    data: Path | None = None,
    unjudged: str = NO_OPINION,
) -> LabelAudit:
    """All labels that a client has, also those that it keeps out of training.

    `site` is what to call it, if not by its name in the draw, `data` where it has them. `unjudged`
    is what to say of a method whose opinion has no qualities.
    """
    rows = _rows(draw, client)
    views = views_of(dataset)
    if opinion is not None:
        parts = [opinion, *([] if opinion.held_out is None else [opinion.held_out])]
        opinion = joined(parts)
        if opinion.p_clean is None and len(rows):
            missing = (*missing, unjudged.format(method=method))
    return LabelAudit(
        site=site or (draw.names[client] if draw.names else f"client {client}"),
        classes=dataset.classes,
        given=draw.given[rows],
        opinion=opinion,
        trusted=None if draw.trusted is None else draw.trusted[rows],
        name=lambda number: dataset.name_of(int(rows[number])),
        view=lambda number: views(int(rows[number])),
        samples=ShownSamples(dataset, rows),
        data=data,
        missing=missing,
    )


def _rows(draw: Draw, client: int) -> Rows:
    held_out = [] if draw.held_out is None else [draw.held_out[client]]
    return np.concatenate([draw.parts[client], *held_out])


def opinion_of(columns: Columns, client: int) -> Assessment:
    """A client's part of a run's assessment.npz."""
    opinion = _part(columns, client, "")
    if f"{HELD_OUT}client" in columns:
        held_out = _part(columns, client, HELD_OUT)
        opinion = Assessment(
            opinion.predicted,
            opinion.p_clean,
            second_opinion=opinion.second_opinion,
            confidence=opinion.confidence,
            held_out=held_out,
        )
    return opinion


def _part(columns: Columns, client: int, prefix: str) -> Assessment:
    mine = columns[f"{prefix}client"] == client

    def column(name: str) -> Any:
        found = columns.get(prefix + name)
        return None if found is None else found[mine]

    return Assessment(
        column("predicted_label"),
        column("label_quality"),
        second_opinion=column("second_opinion"),
        confidence=column("confidence"),
    )

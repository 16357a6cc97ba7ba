"""Whether a run gives the same bits in worker processes, and after a stop and a resume."""

from pathlib import Path
from typing import Any

import numpy as np

import feddiv
from feddiv.config.experiment import Experiment
from feddiv.runs.experiment import Watcher
from feddiv.runs.run import Run
from feddiv.testing.findings import Findings
from feddiv.testing.odd_clients import WIDTH
from feddiv.testing.trial import journal, same_arrays

STOP_AFTER = 3  # rounds
WORKERS = 2


class _Enough(Exception):
    """Stops a run."""


class _StopAfter(Watcher):
    def __init__(self, rounds: int) -> None:
        self.left = rounds

    def round(self, line: dict[str, Any]) -> None:
        self.left -= 1
        if not self.left:
            raise _Enough


def check_same_bits(
    experiment: Experiment, straight: Run, folder: Path, findings: Findings
) -> None:
    """Run it again in workers, stopped and resumed, and compare; then load the model."""
    try:
        feddiv.run(experiment, out=folder, workers=WORKERS, watcher=_StopAfter(STOP_AFTER))
    except _Enough:
        pass
    except Exception as problem:
        findings.failed(f"the run with {WORKERS} workers", problem)
        return
    try:
        again = feddiv.resume(folder, workers=WORKERS)
    except Exception as problem:
        findings.failed("going on with a run that was stopped", problem)
        return
    if difference := _difference(straight, again):
        findings.add(difference)
    try:
        feddiv.load(folder).predict(np.zeros((1, WIDTH), np.float32))
    except Exception as problem:
        findings.failed("using the model that was trained", problem)


def _difference(straight: Run, again: Run) -> str:
    for name in ("clients.jsonl", "rounds.jsonl"):
        lines, others = journal(straight.folder, name), journal(again.folder, name)
        for line, other in zip(lines, others, strict=False):
            if line != other:
                return _said(line, other)
        if len(lines) != len(others):
            return f"{name} has {len(others)} lines after a resume and {len(lines)} without a stop"
    same_model = straight.summary["model_hash"] == again.summary["model_hash"]
    if same_model and same_arrays(straight.assessment, again.assessment):
        return ""
    what = "assessments" if same_model else "weights"
    return f"the {what} at the end differ from those of a run in one process without a stop"


def _said(line: dict[str, Any], other: dict[str, Any]) -> str:
    key = next(each for each in {**line, **other} if line.get(each) != other.get(each))
    resumed = line["turn"] > STOP_AFTER
    how = "after a stop and a resume" if resumed else f"with {WORKERS} workers"
    rule = (
        "what `plan` and `merge` need later belongs into the state"
        if resumed
        else "draws come from `rng` alone, and what lasts belongs into the state and the memory"
    )
    return (
        f"{how} round {line['turn']} is another than in one process without a stop "
        f"({key} is {other.get(key)} and not {line.get(key)}): {rule}"
    )

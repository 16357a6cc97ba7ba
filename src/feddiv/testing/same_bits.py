"""Whether a run gives the same bits in worker processes, and after a stop and a resume."""

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

import numpy as np

import feddiv
from feddiv.runs.run import Run
from feddiv.runs.start_and_resume import Watcher
from feddiv.testing.findings import Findings
from feddiv.testing.odd_clients import ROUNDS, WIDTH
from feddiv.testing.trial import journal, same_arrays

STOP_AFTER: Final = 3  # rounds
WORKERS: Final = 2


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
    settings: Mapping[str, Any], straight: Run, folder: Path, findings: Findings
) -> None:
    """Run it again in workers, stopped and resumed, and compare; then load the model."""
    try:
        feddiv.run({}, settings, out=folder, workers=WORKERS, watcher=_StopAfter(STOP_AFTER))
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
    """Where two runs part first; nothing where they never do."""
    parted = [*_parted("clients.jsonl", straight, again), *_parted("rounds.jsonl", straight, again)]
    if parted:
        turn, resumed, what = min(parted)
        how = "after a stop and a resume" if resumed else f"with {WORKERS} workers"
        rule = (
            "what `plan` and `merge` need later belongs into the state"
            if resumed
            else "draws come from `rng` alone, and what lasts belongs into the state and the memory"
        )
        return f"{how} round {turn} is another than in one process without a stop ({what}): {rule}"
    same_model = straight.summary["model_hash"] == again.summary["model_hash"]
    if same_model and same_arrays(straight.assessment, again.assessment):
        return ""
    what = "assessments" if same_model else "weights"
    return f"the {what} at the end differ from those of a run in one process without a stop"


def _parted(name: str, straight: Run, again: Run) -> Iterator[tuple[int, bool, str]]:
    """Turns that a journal tells differently, whether that is after the stop, and what it is."""
    # The last round before the stop is measured and recorded again.
    first = STOP_AFTER if name == "rounds.jsonl" else STOP_AFTER + 1
    pairs = zip_longest(journal(straight.folder, name), journal(again.folder, name))
    for line, other in pairs:
        if line == other:
            continue
        line, other = line or {"turn": ROUNDS}, other or {"turn": ROUNDS}
        turn = min(line["turn"], other["turn"])
        key = next(each for each in {**line, **other} if line.get(each) != other.get(each))
        yield turn, turn >= first, f"{key} is {other.get(key)} and not {line.get(key)}"

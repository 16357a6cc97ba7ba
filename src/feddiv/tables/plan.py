"""What of a sweep is done, what is left, and how long that will take."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

from feddiv.config.experiment import Experiment
from feddiv.tables.rows import Row, fingerprint, newest
from feddiv.tables.sweep_file import Sweep, SweepJob

# Runs that take alike long for a round, the more alike the earlier: what they may differ in.
ALIKE: Final = (
    ("seed",),
    ("seed", "noise", "partition", "rounds", "warmup"),
    ("seed", "noise", "partition", "rounds", "warmup", "method"),
)


@dataclass(frozen=True)
class SweepPlan:
    """The jobs of a sweep, and the rows of those that are finished."""

    sweep: Sweep
    known: dict[str, Row]  # by the fingerprint of their options

    @property
    def done(self) -> dict[SweepJob, Row]:
        """Finished jobs, their rows under the names of this sweep."""
        return {
            job: replace(row, setting=job.setting, method=job.method, paper=job.paper)
            for job in self.sweep.jobs
            if (row := self.known.get(job.made_by)) is not None
        }

    @property
    def left(self) -> list[SweepJob]:
        """Jobs that are not; of several that are the same run the first."""
        first: dict[str, SweepJob] = {}
        for job in self.sweep.jobs:
            if job.made_by not in self.known:
                first.setdefault(job.made_by, job)
        return list(first.values())

    def seconds(self, jobs: int) -> tuple[float, int]:
        """Time for what is left with so many jobs at once, and of how many runs nothing is known.

        Runs start in their order, each where there is room first.
        """
        pace, free, unknown = SweepPace(list(self.known.values())), [0.0] * max(jobs, 1), 0
        for job in self.left:
            known = pace.seconds(job.experiment)
            unknown += known is None
            free.sort()
            free[0] += known or 0.0
        return max(free), unknown


def plan_of(sweep: Sweep, rows: Iterable[Row]) -> SweepPlan:
    """What rows tell of a sweep."""
    return SweepPlan(sweep, newest(rows))


class SweepPace:
    """Seconds of a round, from finished runs: those that are most like the one asked for."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._known: list[dict[str, list[float]]] = [{} for _ in ALIKE]
        for row in rows:
            seconds, rounds = row.number("seconds"), row.number("rounds")
            if row.experiment is None or not seconds or not rounds:
                continue
            for but, known in zip(ALIKE, self._known, strict=True):
                known.setdefault(fingerprint(row.experiment, but), []).append(seconds / rounds)

    def seconds(self, experiment: Experiment) -> float | None:
        """How long a run will take; None where no finished one is like it."""
        for but, known in zip(ALIKE, self._known, strict=True):
            paces = known.get(fingerprint(experiment, but))
            if paces:
                return median(paces) * experiment.rounds
        return None

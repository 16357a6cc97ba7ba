"""How a sweep goes on: which run is where, live on a terminal, plain lines elsewhere."""

import time
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from feddiv.core.terminal import duration, shown
from feddiv.tables.plan import SweepPlan
from feddiv.tables.rows import Row
from feddiv.tables.sweep import SweepWatcher, standing
from feddiv.tables.sweep_file import SweepJob

DRAWN = 1.0  # seconds between two pictures of what is under way


def sweep_progress(*, quiet: bool) -> "SweepLines":
    """The display that suits where stderr goes."""
    console = Console(stderr=True, highlight=False)
    if quiet:
        return SweepLines(Console(quiet=True))
    return LiveSweep(console) if console.is_terminal else SweepLines(console)


def plan_lines(plan: SweepPlan, folder: Path, jobs: int) -> list[str]:
    """What is done, what is left and how long it will take."""
    sweep, left = plan.sweep, plan.left
    runs = len({job.made_by for job in sweep.jobs})
    lines = [
        f"{sweep.name}: {len(sweep.settings)} settings × {len(sweep.methods)} methods × "
        f"{len(sweep.seeds)} seeds, {runs} runs, {runs - len(left)} finished, {len(left)} left"
    ]
    if left:
        seconds, unknown = plan.seconds(jobs)
        guess = "no finished run to judge the time by"
        if unknown < len(left):
            more = f", and {unknown} runs that none is like" if unknown else ""
            guess = f"about {duration(seconds)}{more}"
        lines.append(f"{guess}, {jobs} at a time, in {folder}")
    return lines


class SweepLines(SweepWatcher):
    """A line for each run that ends."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.plan: SweepPlan | None = None
        self.count = self.left = 0

    def __enter__(self) -> "SweepLines":
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the terminal as it was."""

    def say(self, line: str) -> None:
        """Print a line."""
        self.console.print(shown(line), soft_wrap=True, markup=False)

    def planned(self, plan: SweepPlan, folder: Path, jobs: int) -> None:
        """The plan."""
        self.plan, self.left = plan, len(plan.left)
        for line in plan_lines(plan, folder, jobs):
            self.say(line)

    def started(self, job: SweepJob, again: bool) -> None:
        """Say so where a run goes on."""
        if again:
            self.say(f"goes on: {job.title}")

    def done(self, job: SweepJob, row: Row) -> None:
        """Its best and its last ten."""
        best, last = (row.number(f"{key}_test_accuracy") for key in ("best", "mean_last10"))
        said = "" if best is None or last is None else f"  best {best:.1%}  last ten {last:.1%}"
        seconds = row.number("seconds")
        took = "" if seconds is None else f"  {duration(seconds)}"
        self.say(f"{self._number()} {job.title}{said}{took}")

    def failed(self, job: SweepJob, reason: str) -> None:
        """Why."""
        self.say(f"{self._number()} FAILED {job.title}: {reason}")

    def _number(self) -> str:
        self.count += 1
        return f"{self.count}/{self.left}"


class LiveSweep(SweepLines):
    """The same, and below it a table of what is under way."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self.live = Live(console=console, auto_refresh=False, transient=True)
        self.begun: dict[SweepJob, tuple[float, float]] = {}  # when it was first seen, and where
        self.drawn = 0.0

    def planned(self, plan: SweepPlan, folder: Path, jobs: int) -> None:
        """The plan, and the table from now on."""
        super().planned(plan, folder, jobs)
        self.live.start()

    def close(self) -> None:
        """The table goes, the lines stay."""
        self.live.stop()

    def looked(self, running: Mapping[SweepJob, Path]) -> None:
        """Draw who is where, once in a while."""
        now = time.monotonic()
        if now < self.drawn + DRAWN:
            return
        self.drawn = now
        table = Table.grid(padding=(0, 2), pad_edge=False)
        for job, folder in running.items():
            table.add_row(*map(Text, self._cells(job, folder, now)))
        rest = max(self.left - self.count - len(running), 0)
        foot = Text(f"{len(running)} under way, {rest} waiting", style="dim")
        self.live.update(Group(table, foot), refresh=True)

    def _cells(self, job: SweepJob, folder: Path, now: float) -> list[str]:
        where = standing(folder, job.experiment.rounds)
        if where is None:
            return [shown(job.title), "begins", "", ""]
        since, first = self.begun.setdefault(job, (now, where.round))
        done = where.round - first
        left = (where.rounds - where.round) * (now - since) / done if done > 0 else 0.0
        accuracy = "" if where.accuracy is None else f"accuracy {where.accuracy:.1%}"
        place = f"round {round(where.round)} of {where.rounds}"
        return [shown(job.title), place, accuracy, f"{duration(left)} left" if left else ""]

"""How a run goes on: a live line on a terminal, plain lines elsewhere, both on stderr."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from feddiv.core.terminal import duration, shown
from feddiv.runs.journal import Record
from feddiv.runs.prepare import Prepared
from feddiv.runs.run import Run
from feddiv.runs.run_folder import RunFolder
from feddiv.runs.start_and_resume import Watcher

MANY = 1000  # samples: fewer are made ready in no time
PLAIN_LINES = 40  # about so many per run where nobody looks on


def progress(*, quiet: bool) -> "Quiet":
    """The display that suits where stderr goes."""
    console = Console(stderr=True, highlight=False)
    if quiet:
        return Quiet()
    return Live(console) if console.is_terminal else PlainProgress(console)


def _say(console: Console, line: str) -> None:
    console.print(f"feddiv: {shown(line)}", soft_wrap=True, markup=False)


@dataclass
class RunProgress:
    """Where one run stands."""

    name: str
    rounds: int
    turns: int
    measure: str = "test_accuracy"
    started: float = field(default_factory=time.monotonic)
    best: float = 0.0
    spent: float = 0.0
    earlier: float = 0.0  # rounds that were spent before this session
    words: str = ""

    def note(self, line: Record) -> None:
        """Take in the record of a round."""
        self.spent = min(float(line["round"]), self.rounds)
        accuracy = line[self.measure]
        if accuracy is None:
            return
        self.best = max(self.best, accuracy)
        believed = line.get("believed_accuracy")
        what = "held out"
        if self.measure == "test_accuracy":  # its labels are doubtful where others are believed
            what = "given labels" if "believed_accuracy" in line else "accuracy"
        beside = f"best {self.best:.1%}" if believed is None else f"believed {believed:.1%}"
        self.words = f"{what} {accuracy:.1%}  {beside}"
        f1 = (line["filter"] or {}).get("f1")
        if f1 is not None:
            self.words += f"  filter F1 {f1:.3f}"

    @property
    def place(self) -> str:
        """Round of rounds; a turn of warm-up may be worth several."""
        return f"round {round(self.spent):{len(str(self.rounds))}} of {self.rounds}"

    @property
    def left(self) -> str:
        """Time left at the pace so far."""
        passed, done = time.monotonic() - self.started, self.spent - self.earlier
        rest = (self.rounds - self.spent) * passed / done if done else 0.0
        return f"{duration(rest)} left" if rest else ""


@dataclass
class Pace:
    """How fast samples are made ready."""

    done: int  # when it began
    started: float = field(default_factory=time.monotonic)

    def left(self, done: int, total: int) -> str:
        """Time left at the pace so far."""
        passed, made = time.monotonic() - self.started, done - self.done
        return f"{duration((total - done) * passed / made)} left" if made and done < total else ""


class Quiet(Watcher):
    """Says nothing, and remembers where the runs are written."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.standing = RunProgress("", 1, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the terminal as it was."""

    @property
    def begun(self) -> bool:
        """Whether there is a run that can be gone on with."""
        try:
            return self.folder is not None and (self.folder / "config.toml").exists()
        except OSError:  # the name is too long, for one
            return False

    def whereabouts(self) -> str:
        """What is left of runs that were stopped."""
        if not self.begun:
            return "nothing was begun"
        return f"go on with: feddiv resume {self.folder}"

    def remains(self) -> str:
        """What is left of runs that it makes no sense to go on with."""
        if self.folder is None or not self.folder.exists():
            return "nothing was written"
        return f"what was written stays in {self.folder}"

    def refused(self, reason: str) -> None:
        """Say so, whoever looks on."""
        self.note(reason)

    def note(self, line: str) -> None:
        """Say so, whoever looks on."""
        _say(Console(stderr=True, highlight=False), line)

    def goes_on(self, rounds: Sequence[Record]) -> None:
        """Count from there."""
        for line in rounds:
            self.standing.note(line)
        self.standing.earlier = self.standing.spent

    def opens(self, path: Path) -> None:
        """Remember where it all is."""
        self.folder = path

    def starts(self, name: str, prepared: Prepared, folder: RunFolder) -> None:
        """Count anew."""
        experiment = prepared.experiment
        measure = experiment.evaluation.measure
        self.standing = RunProgress(name, experiment.rounds, prepared.turns, measure)

    def round(self, line: Record) -> None:
        """Keep up."""
        self.standing.note(line)


class PlainProgress(Quiet):
    """One line a round; fewer where there are very many."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self.console = console
        self.preparing, self.tenths, self.pace = "", 0, Pace(0)

    def prepares(self, what: str, done: int, total: int) -> None:
        """A line for every tenth; none for what is done at once."""
        tenths = 10 * done // total
        if what != self.preparing:
            self.preparing, self.tenths, self.pace = what, 0, Pace(done)
        if total >= MANY and tenths > self.tenths:
            self.tenths = tenths
            parts = (f"{what}: {done:,} of {total:,}", self.pace.left(done, total))
            line = "  ".join(part for part in parts if part)
            self.console.print(line, soft_wrap=True, markup=False)

    def round(self, line: Record) -> None:
        """Print the round if it is its turn."""
        super().round(line)
        standing, turn = self.standing, line["turn"]
        every = max(1, standing.turns // PLAIN_LINES)
        if turn % every and turn != standing.turns:
            return
        parts = [standing.name, standing.place, standing.words, standing.left]
        self.console.print("  ".join(part for part in parts if part), soft_wrap=True, markup=False)


class Live(Quiet):
    """A bar for each run."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self.bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=max(4, min(20, console.width - 86))),
            TextColumn("{task.fields[place]}"),
            TextColumn("{task.fields[words]}"),
            TextColumn("{task.fields[left]}", style="dim"),
            console=console,
        )
        self.task = TaskID(0)
        self.preparing: dict[str, tuple[TaskID, Pace]] = {}

    def close(self) -> None:
        """Stop redrawing; the bars stay on the screen."""
        self.bars.stop()

    def note(self, line: str) -> None:
        """Above the bars."""
        _say(self.bars.console, line)

    def prepares(self, what: str, done: int, total: int) -> None:
        """A bar of its own."""
        if what not in self.preparing:
            self.bars.start()
            task = self.bars.add_task(what, total=total, place="", words="", left="")
            self.preparing[what] = task, Pace(done)
        task, pace = self.preparing[what]
        place, left = f"{done:,} of {total:,}", pace.left(done, total)
        self.bars.update(task, completed=done, place=place, left=left)

    def starts(self, name: str, prepared: Prepared, folder: RunFolder) -> None:
        """A new bar under those of the runs before."""
        super().starts(name, prepared, folder)
        self.bars.start()
        standing = self.standing
        self.task = self.bars.add_task(
            name, total=standing.rounds, place=standing.place, words="", left=""
        )

    def round(self, line: Record) -> None:
        """Move on."""
        super().round(line)
        standing = self.standing
        self.bars.update(
            self.task,
            completed=standing.spent,
            place=standing.place,
            words=standing.words,
            left=standing.left,
        )

    def ends(self, run: Run) -> None:
        """Where time left stood, the time it took."""
        self.bars.update(self.task, left=duration(run.summary["seconds"]))

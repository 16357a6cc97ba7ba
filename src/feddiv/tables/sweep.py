"""Running a sweep: what is left of it, side by side, until all is done or has failed."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import rmtree
from typing import Any, Final

from feddiv.core.errors import UserError
from feddiv.core.files import Lock
from feddiv.core.given_files import at_home
from feddiv.runs.run_folder import REPORT, RunFolder
from feddiv.tables.plan import SweepPlan, plan_of
from feddiv.tables.ray_tasks import LOST, RayTasks
from feddiv.tables.rows import Row, add_row, read_rows, row_of
from feddiv.tables.run_process import Start
from feddiv.tables.runners import Runner, RunProcesses
from feddiv.tables.sweep_file import Sweep, SweepJob, read_sweep

SWEEPS: Final = Path("sweeps")
ROWS: Final = "rows.jsonl"  # in a sweep's folder
RUNS: Final = "runs"
LOOKED: Final = 0.2  # seconds between two looks at who has ended
ATTEMPTS: Final = 100  # to lock a folder that others may be removing
TAIL: Final = 1 << 17  # bytes of a journal's end in which its last line is looked for


@dataclass(frozen=True)
class JobStanding:
    """Where a run that is under way stands."""

    round: float
    rounds: int
    accuracy: float | None


class SweepWatcher:
    """Somebody who is told how a sweep goes on; this one does not care."""

    def planned(self, plan: SweepPlan, folder: Path, jobs: int) -> None:
        """What is done and what is left, before anything is started."""

    def started(self, job: SweepJob, again: bool) -> None:
        """A run begins, or goes on from where it was stopped."""

    def looked(self, running: Mapping[SweepJob, Path]) -> None:
        """Time to look at the runs that are under way, by their folders."""

    def done(self, job: SweepJob, row: Row) -> None:
        """A run has ended, and its row is kept."""

    def failed(self, job: SweepJob, reason: str) -> None:
        """A run could not be brought to its end; the others go on."""


@dataclass(frozen=True)
class Swept:
    """A sweep that is over, or its plan."""

    plan: SweepPlan
    folder: Path
    file: Path  # of rows
    failed: Mapping[SweepJob, str]

    @property
    def rows(self) -> list[Row]:
        """A row for each run that is finished, under the names of the sweep."""
        return list(self.plan.done.values())

    @property
    def folders(self) -> dict[SweepJob, Path]:
        """Folders of finished runs that are there."""
        homes = {job: run_folder(self.folder, job) for job in self.plan.done}
        return {job: home for job, home in homes.items() if (home / "summary.json").is_file()}


def sweep(
    source: "str | Path | Mapping[str, Any] | Sweep",
    *,
    out: str | Path | None = None,
    jobs: int | None = None,
    ray: str | None = None,
    dry_run: bool = False,
    watcher: SweepWatcher | None = None,
) -> Swept:
    """Run what is left of a sweep; with `dry_run` only say what that is."""
    given = source if isinstance(source, Sweep) else read_sweep(source)
    if jobs is not None and jobs < 1:
        raise UserError(f"--jobs {jobs}: must be 1 or more")
    if out is not None and str(out) in ("", "."):
        raise UserError(f"--out {str(out)!r}: name a folder of its own for the sweep")
    folder = SWEEPS / given.name if out is None else at_home(out)
    if folder.exists() and not folder.is_dir():
        raise UserError(f"--out {folder}: is a file, not a folder")
    watcher = watcher or SweepWatcher()
    file = given.rows or folder / ROWS
    plan = _planned(given, file)
    if dry_run:
        watcher.planned(plan, folder, RunProcesses(jobs).room)
        return Swept(plan, folder, file, {})
    with _locked(folder):
        runner = RunProcesses(jobs) if ray is None else RayTasks(ray, jobs)
        try:
            # Only now nobody else adds rows.
            return _Sweeping(_planned(given, file), folder, file, runner, watcher).run()
        finally:
            runner.stop()


def _planned(given: Sweep, file: Path) -> SweepPlan:
    return plan_of(given, read_rows(file) if file.exists() else [])


def run_folder(folder: Path, job: SweepJob) -> Path:
    """Where a job runs."""
    return folder.absolute() / RUNS / job.folder


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Nobody else sweeps in this folder, which is made if it is not there."""
    lock = _lock_of(folder)
    try:
        yield
    finally:
        with suppress(OSError):  # nothing was begun: nothing is left
            folder.rmdir()
        lock.release()


def _lock_of(folder: Path) -> Lock:
    """The lock of the folder that has this name: a sweep that began nothing takes its own away."""
    reason: object = "others make and remove it all the time"
    for _ in range(ATTEMPTS):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = Lock.of(folder)
        except FileNotFoundError as error:
            reason = error.strerror
            continue
        except OSError as error:
            reason = error.strerror or error
            break
        if lock is None:
            raise UserError(f"{folder}: another sweep is running in this folder")
        if lock.is_of(folder):
            return lock
        lock.release()
    raise UserError(f"--out {folder}: cannot be written ({reason})")


class _Sweeping:
    """A sweep under way."""

    def __init__(
        self, plan: SweepPlan, folder: Path, file: Path, runner: Runner, watcher: SweepWatcher
    ) -> None:
        self.plan, self.folder, self.file = plan, folder, file
        self.runner, self.watcher = runner, watcher
        self.running: dict[SweepJob, Start] = {}
        self.failed: dict[SweepJob, str] = {}

    def run(self) -> Swept:
        self.watcher.planned(self.plan, self.folder, self.runner.room)
        self._tidy()
        waiting = list(self.plan.left)
        while waiting or self.running:
            while waiting and len(self.running) < self.runner.room:
                self._start(waiting.pop(0))
            for job, code in self.runner.ended().items():
                self._ended(job, code)
            self.watcher.looked({job: Path(start.folder) for job, start in self.running.items()})
            if self.running:
                time.sleep(LOOKED)
        return Swept(self.plan, self.folder, self.file, self.failed)

    def _tidy(self) -> None:
        """Folders of runs whose row was kept just before a crash."""
        if self.plan.sweep.keep == "rows":
            for job in self.plan.done:
                rmtree(run_folder(self.folder, job), ignore_errors=True)

    def _start(self, job: SweepJob) -> None:
        folder = run_folder(self.folder, job)
        if self._is_over(folder):  # the sweep was killed before it kept the row
            self._keep(job, folder)
            return
        begun = (folder / "config.toml").is_file()
        self.running[job] = start = Start.of(job, folder)
        self.runner.start(job, start)
        self.watcher.started(job, begun)

    def _is_over(self, folder: Path) -> bool:
        """Whether nothing of a run is left to do. Its page is made after its results, last of all:
        a run that is kept and was killed before it goes on, without another round."""
        drawn = self.plan.sweep.keep == "rows" or (folder / REPORT).is_file()
        return drawn and RunFolder.reading(folder).ended

    def _ended(self, job: SweepJob, code: int) -> None:
        start = self.running.pop(job)
        folder = Path(start.folder)
        if code == 0 and RunFolder.reading(folder).ended:
            self._keep(job, folder)
            return
        said = "its machine was lost" if code == LOST else start.said()
        reason = f"{said} (exit code {code}, {start.log})"
        self.failed[job] = reason
        self.watcher.failed(job, reason)

    def _keep(self, job: SweepJob, folder: Path) -> None:
        Start.of(job, folder).log.unlink(missing_ok=True)
        try:
            row = row_of(
                folder,
                job.experiment,
                setting=job.setting,
                method=job.method,
                command=job.command,
                paper=job.paper,
            )
        except (UserError, OSError) as problem:  # a damaged folder is this run's trouble alone
            self.failed[job] = str(problem)
            self.watcher.failed(job, str(problem))
            return
        other = self._other_draw(job, row)
        if other:
            self.failed[job] = other
            self.watcher.failed(job, other)
            return
        add_row(self.file, row)
        self.plan = replace(self.plan, known={**self.plan.known, job.made_by: row})
        if self.plan.sweep.keep == "rows":
            rmtree(folder, ignore_errors=True)
        self.watcher.done(job, row)

    def _other_draw(self, job: SweepJob, row: Row) -> str:
        """Methods of a setting are compared on the same draw of a seed, or not at all."""
        for other, known in self.plan.done.items():
            same = (other.setting, other.seed) == (job.setting, job.seed)
            if same and known.summary.get("draw") != row.summary.get("draw"):
                return (
                    f"its draw is not that of {other.method}, which is kept: the data have "
                    f"changed since (take the row out of {self.file} to run it again)"
                )
        return ""


def standing(folder: Path, rounds: int) -> JobStanding | None:
    """Where the run in a folder stands; None before its first round."""
    try:
        with (folder / "rounds.jsonl").open("rb") as file:
            file.seek(0, 2)
            file.seek(max(file.tell() - TAIL, 0))
            lines = file.read().split(b"\n")
        line = json.loads(lines[-2]) if len(lines) > 1 else None
    except (OSError, ValueError):
        return None
    if not isinstance(line, dict):
        return None
    return JobStanding(float(line.get("round", 0)), rounds, line.get("test_accuracy"))

"""Rounds of a run in the tracker that people already use: TensorBoard or MLflow.

A tracker gets the numbers of rounds.jsonl under their names, and nothing else that is measured:
what a client notes stays where it is. The run does not depend on it. Where a tracker fails while
the run goes on, it is left out from then on.
"""

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal, Protocol, Self

from feddiv.config.experiment import Experiment, title, to_toml
from feddiv.core.dotted import flat
from feddiv.core.errors import UserError, in_one_line
from feddiv.core.files import Unreadable, read_json, write_json
from feddiv.core.given_files import SMALL
from feddiv.runs.journal import Record
from feddiv.runs.run_folder import EVENTS, TRACKING

MODULES: Final = {"tensorboard": "tensorboard", "mlflow": "mlflow"}
LEFT_OUT: Final = ("turn", "scores")  # of a line: its number, and a histogram
ENDS: Final = ("best_", "last_", "mean_last10_")  # of summary.json
EXPERIMENT: Final = "feddiv"
STORE: Final = "mlruns"
MOST: Final = 100  # parameters that MLflow takes at once
Ending = Literal["FINISHED", "FAILED", "KILLED"]


class Tracker(Protocol):
    """Where numbers go."""

    def numbers(self, values: Mapping[str, float], step: int) -> None:
        """The numbers of a round; `step` counts communication rounds."""

    def close(self, ending: Ending) -> None:
        """The run is over, or stopped."""


def check_tracking(experiment: Experiment) -> None:
    """Refuse, before anything is written, a tracker that is not installed."""
    name = MODULES.get(experiment.track)
    if name is not None and find_spec(name) is None:
        way = f"pip install 'feddiv[{experiment.track}]', or track=none"
        raise UserError(f"track={experiment.track}: is not installed; {way}")


def numbers_of(line: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a line by dotted key, lists and what is missing left out.

    >>> numbers_of({"turn": 3, "round": 4, "filter": {"f1": 0.5, "recall": None}, "bias": [0.1]})
    {'round': 4.0, 'filter.f1': 0.5}
    """
    kept = {key: value for key, value in line.items() if key not in LEFT_OUT}
    found = flat(kept)
    return {
        key: float(value)
        for key, value in found.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


class Tracking:
    """A run's tracker, if it has one; `note` is told once if it fails."""

    def __init__(self, experiment: Experiment, folder: Path, note: Callable[[str], None]) -> None:
        self.experiment, self.folder, self.note = experiment, folder, note
        self.tracker: Tracker | None = None
        self.step = 0

    def open(self, rounds: Sequence[Record] = ()) -> None:
        """The run is sure to begin, or to go on after these rounds."""
        if rounds:
            self.step = round(float(rounds[-1]["round"]))
        try:
            self.tracker = _opened(self.experiment, self.folder, self.step)
        except Exception as problem:
            raise UserError(f"track={self.experiment.track}: {in_one_line(problem)}") from None

    def round(self, line: Record) -> None:
        """A round is over."""
        self.step = round(float(line["round"]))
        self._try(lambda tracker: tracker.numbers(numbers_of(line), self.step))

    def summary(self, summary: Mapping[str, Any]) -> None:
        """The run has ended: its accuracies."""
        ends = {key: value for key, value in summary.items() if key.startswith(ENDS)}
        self._try(lambda tracker: tracker.numbers(numbers_of(ends), self.step))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        ending: Ending = "FINISHED"
        if kind is not None:
            ending = "FAILED" if issubclass(kind, Exception) else "KILLED"
        self._try(lambda tracker: tracker.close(ending))
        self.tracker = None

    def _try(self, job: Callable[[Tracker], None]) -> None:
        if self.tracker is None:
            return
        try:
            job(self.tracker)
        except Exception as problem:  # a full disk, a server that is gone: not worth a run
            self.tracker = None
            self.note(f"tracking has stopped ({in_one_line(problem)}); the run goes on without")


def _opened(experiment: Experiment, folder: Path, done: int) -> Tracker | None:
    if experiment.track == "tensorboard":
        return TensorBoard(experiment, folder, done)
    if experiment.track == "mlflow":
        return MLflow(experiment, folder)
    return None


class TensorBoard:
    """Event files in the run's folder."""

    def __init__(self, experiment: Experiment, folder: Path, done: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        again = (folder / EVENTS).is_dir()
        # What an earlier session wrote of rounds that are made again is not shown any more.
        self.writer: Any = SummaryWriter(
            str(folder / EVENTS), purge_step=done + 1 if again else None
        )
        self.writer.add_text("config", f"```\n{to_toml(experiment)}\n```", 0)

    def numbers(self, values: Mapping[str, float], step: int) -> None:
        """One scalar each."""
        for key, value in values.items():
            self.writer.add_scalar(key, value, step)
        self.writer.flush()

    def close(self, ending: Ending) -> None:
        """All of it on the disk."""
        self.writer.close()


class MLflow:
    """A run in MLflow's store: where MLFLOW_TRACKING_URI says, else files in ./mlruns.

    Its number is kept in the run's folder, so that a run that goes on is the same one there.
    """

    def __init__(self, experiment: Experiment, folder: Path) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # nothing is told to others
        address = os.environ.get("MLFLOW_TRACKING_URI")
        if address is None:
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
            address = Path(STORE).absolute().as_uri()
        from mlflow.entities import Metric, Param
        from mlflow.tracking import MlflowClient

        self._metric, self.client = Metric, MlflowClient(address)
        file = folder / TRACKING
        self.done = -1  # the last step that it has already
        known = self._known(file)
        if known is None:
            named = os.environ.get("MLFLOW_EXPERIMENT_NAME", EXPERIMENT)
            found = self.client.get_experiment_by_name(named)
            number = found.experiment_id if found else self.client.create_experiment(named)
            name = f"{title(experiment)} {folder.name}"
            self.run = str(self.client.create_run(number, run_name=name).info.run_id)
            write_json(file, {"mlflow": self.run})
            settings = flat(experiment.model_dump(mode="json", exclude_none=True))
            listed = [Param(key, str(value)) for key, value in settings.items()]
            for first in range(0, len(listed), MOST):
                self.client.log_batch(self.run, params=listed[first : first + MOST])
            return
        self.run = known
        self.client.update_run(self.run, status="RUNNING")
        history = self.client.get_metric_history(self.run, "round")
        self.done = max((each.step for each in history), default=-1)

    def _known(self, file: Path) -> str | None:
        """The run that an earlier session began, if the store still has it."""
        from mlflow.exceptions import MlflowException

        try:
            run = read_json(file, SMALL).get("mlflow")
            if not isinstance(run, str) or not re.fullmatch(r"[0-9a-f]{32}", run):
                return None
            self.client.get_run(run)
            return run
        except (Unreadable, MlflowException):
            return None

    def numbers(self, values: Mapping[str, float], step: int) -> None:
        """Metrics; rounds that are made again after a stop have the same numbers and are there."""
        if "round" in values and step <= self.done:
            return
        now = int(1000 * time.time())
        metrics = [self._metric(key, value, now, step) for key, value in values.items()]
        self.client.log_batch(self.run, metrics=metrics)

    def close(self, ending: Ending) -> None:
        """Say how it ended."""
        self.client.set_terminated(self.run, ending)

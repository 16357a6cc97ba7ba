"""One run from its first round, or from a checkpoint, to its end."""

from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from feddiv.config.experiment import Experiment
from feddiv.core.arrays import Weights
from feddiv.core.errors import UserError
from feddiv.core.files import Unreadable
from feddiv.core.interrupts import handled
from feddiv.core.randomness import Streams
from feddiv.defence.defence import Defence
from feddiv.federation.client_memory import ModelFiles
from feddiv.federation.federation import Federation
from feddiv.federation.in_process import InProcess
from feddiv.federation.worker_pool import Workers, usable_workers
from feddiv.runs.checkpoint import FOLDER, NETS, Checkpoint
from feddiv.runs.evaluate import evaluation_of
from feddiv.runs.finished_check import check_finished
from feddiv.runs.journal import Record
from feddiv.runs.loop import Loop
from feddiv.runs.model import model_hash
from feddiv.runs.prepare import Prepared
from feddiv.runs.privacy_summary import privacy_summary
from feddiv.runs.recorder import Recorder
from feddiv.runs.results import as_html, in_one_line
from feddiv.runs.run_folder import RunFolder
from feddiv.runs.summary import Closing, summarise

Listener = Callable[[Record, Weights], None]
# Makes the federation that carries the messages of a run.
Carrier = Callable[[Prepared, RunFolder], Federation]


@dataclass(frozen=True)
class Run:
    """A finished run: its folder, its summary and its records.

    `against` has the runs of `experiment.against`, by the names used there. `assessment` has one
    entry per sample of every client: `score`, `given_label`, `label_quality`, …
    """

    experiment: Experiment
    folder: Path
    summary: dict[str, Any]
    rounds: list[Record]
    assessment: dict[str, npt.NDArray[Any]]
    against: dict[str, "Run"] = field(default_factory=dict)

    def __repr__(self) -> str:
        return in_one_line(self)

    def _repr_html_(self) -> str:
        """How a notebook shows it."""
        return as_html(self)

    def column(self, key: str) -> npt.NDArray[np.float64]:
        """A number of every record as an array, NaN where one has none: `test_accuracy`, …"""
        known = {name for line in self.rounds for name in line}
        if key not in known:
            raise KeyError(f"{key!r} is in no record; there are {', '.join(sorted(known))}")
        return np.array([_number(line.get(key)) for line in self.rounds])

    @property
    def rounds_spent(self) -> npt.NDArray[np.float64]:
        """Communication rounds spent at each record."""
        return self.column("round")


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else float("nan")


def execute(
    prepared: Prepared,
    folder: RunFolder,
    listener: Listener = lambda line, weights: None,
    *,
    carrier: Carrier,
    checkpoint: Checkpoint | None = None,
    ready: Callable[[], None] = lambda: None,
) -> Run:
    """Train to the end and write everything a run leaves behind.

    The folder has been begun; `carrier` makes the federation that carries the messages. `ready` is
    called when the run is sure to go on from its checkpoint, before anything is written.
    """
    experiment = prepared.experiment
    method = prepared.workspace.method
    method.model_store = ModelFiles(folder.path / FOLDER / NETS)
    with handled(), closing(carrier(prepared, folder)) as federation:
        recorder = Recorder(prepared, folder, federation, listener)
        if checkpoint is not None:
            _restore(federation, checkpoint)
        ready()
        if checkpoint is not None:
            recorder.goes_on(checkpoint)
        loop = Loop(
            method,
            federation,
            evaluation_of(prepared),
            Streams(experiment.seed),
            defence=Defence(experiment.robust, experiment.federation.largest_site),
            privacy=experiment.privacy,
            standardise=experiment.data.standardise == "clients",
            start=None if checkpoint is None else checkpoint.cut,
            on_client=recorder.client,
            on_round=recorder.round,
            on_cut=recorder.cut,
        )
        try:
            loop.run()
            message, end = method.assessment(loop.state), loop.rng.at(round=loop.cut.turn)
            ending = Closing.of(prepared.draw, federation.assess(message, end))
        except BaseException as problem:
            nothing = loop.cut.turn == 1 and not any(each.visits for each in loop.cut.tallies)
            if isinstance(problem, UserError) and nothing and checkpoint is None:
                recorder.forget()  # the run is impossible: there is nothing to go on with
            elif loop.consistent:
                with suppress(OSError):  # what went wrong first is what matters
                    recorder.save()
            raise
        recorder.save()
        weights = method.weights(loop.state)
        folder.save_model("model.safetensors", weights, prepared, message.payload)
        summary = summarise(
            experiment,
            prepared.dataset.classes,
            prepared.draw,
            recorder.rounds,
            ending,
            recorder.seconds,
            model_hash(weights),
        )
        summary |= privacy_summary(experiment.privacy, method, federation.facts, loop.cut.accounts)
        folder.finish(summary, ending.arrays)
        return Run(experiment, folder.path, summary, recorder.rounds, ending.arrays)


def _restore(federation: Federation, checkpoint: Checkpoint) -> None:
    """Give the clients their part; what of it is the federation's own was not looked at yet."""
    try:
        federation.restore(checkpoint.clients)
    except Unreadable as problem:
        raise UserError(f"{checkpoint.file}: {problem}") from None


def finished_run(experiment: Experiment, folder: RunFolder) -> Run:
    """A run that came to its end earlier, read from its folder."""
    run = Run(experiment, folder.path, folder.summary(), folder.rounds(), folder.assessment())
    check_finished(run)
    return run


def on_this_machine(workers: int | None) -> Carrier:
    """Worker processes, but for one process where there is a GPU to drive or none were wanted.

    `workers` None means one per core, 0 means in this process.
    """

    def federation(prepared: Prepared, folder: RunFolder) -> Federation:
        if not prepared.draw.parts:
            raise UserError(
                "data.source=sites: the data are at their sites, which Flower connects; "
                "docs/deployment.md says how"
            )
        count = min(usable_workers(workers), len(prepared.draw.parts))
        nets = folder.path / FOLDER / NETS
        if count == 0 or prepared.workspace.device.type != "cpu":
            return InProcess(prepared.workspace, nets)
        return Workers(prepared.workspace, count, nets)

    return federation

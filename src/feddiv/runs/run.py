"""From an experiment to a run on disk."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from feddiv.config import Experiment
from feddiv.data import Dataset, Draw, load_dataset, make_draw
from feddiv.errors import UserError
from feddiv.federation.in_process import InProcess
from feddiv.federation.workspace import Workspace
from feddiv.learning.average import Weights
from feddiv.randomness import Streams
from feddiv.runs.evaluate import Evaluation
from feddiv.runs.loop import Loop, Record
from feddiv.runs.record import RunFolder
from feddiv.runs.summary import Closing, summarise

Listener = Callable[[Record], None]


@dataclass(frozen=True)
class Prepared:
    """An experiment whose data, draw and net have been made and found to fit."""

    experiment: Experiment
    dataset: Dataset
    draw: Draw
    workspace: Workspace

    @property
    def turns(self) -> int:
        """How many turns the loop will take."""
        return sum(stage.turns for stage in self.workspace.method.stages())


def prepare(experiment: Experiment) -> Prepared:
    """Everything that can go wrong before a run, before anything is written."""
    streams, clients = Streams(experiment.seed), experiment.clients.count
    dataset = load_dataset(experiment.data, streams)
    if experiment.data.draw is None:
        draw = make_draw(dataset, experiment.partition, experiment.noise, clients, streams)
    else:
        draw = Draw.load(experiment.data.draw)
        if len(draw.parts) != clients:
            raise UserError(
                f"data.draw={experiment.data.draw} has {len(draw.parts)} clients: "
                f"set clients.count to that, it is {clients}"
            )
    draw.check(dataset)
    return fitted(experiment, dataset, draw)


def fitted(experiment: Experiment, dataset: Dataset, draw: Draw) -> Prepared:
    """The experiment on data and a draw that are at hand, once a net is found to fit them."""
    method = experiment.build_method()
    if method.needs_truth and draw.truth is None:
        raise UserError(
            f"method.filter.scope=perfect needs true labels, and {dataset.name} has none"
        )
    workspace = Workspace(method, dataset, draw, experiment.model)
    workspace.make_model("net", Streams(experiment.seed))
    return Prepared(experiment, dataset, draw, workspace)


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


def execute(prepared: Prepared, folder: RunFolder, listener: Listener = lambda line: None) -> Run:
    """Train to the end and write everything a run leaves behind."""
    experiment, dataset = prepared.experiment, prepared.dataset
    started = time.perf_counter()
    folder.begin(experiment, prepared.draw)
    federation = InProcess(prepared.workspace)
    evaluation = Evaluation(dataset.test.labels.numpy(), len(dataset.classes))
    rounds: list[Record] = []
    best = -1.0

    def on_round(line: Record, weights: Weights) -> None:
        nonlocal best
        rounds.append(line)
        folder.round(line)
        if line["test_accuracy"] > best:
            best = line["test_accuracy"]
            folder.save_model("best.safetensors", weights, prepared)
        listener(line)

    loop = Loop(
        prepared.workspace.method,
        federation,
        evaluation,
        Streams(experiment.seed),
        on_client=folder.client,
        on_round=on_round,
    )
    loop.run()
    method = prepared.workspace.method
    folder.save_model("model.safetensors", method.weights(loop.state), prepared)
    closing = Closing.of(prepared.draw, federation.assess(method.assessment(loop.state)))
    seconds = time.perf_counter() - started
    summary = summarise(experiment, prepared.draw, rounds, closing, seconds)
    folder.finish(summary, closing.arrays)
    return Run(experiment, folder.path, summary, rounds, closing.arrays)

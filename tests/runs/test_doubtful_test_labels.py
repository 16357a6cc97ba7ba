"""Test samples that were cut from data with wrong labels: what is said of the model's accuracy."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import feddiv
from feddiv.config.reading import load_experiment
from feddiv.core.arrays import Array, Weights
from feddiv.data import Dataset, Draw
from feddiv.data.test_split import hold_out
from feddiv.federation.workspace import Workspace
from feddiv.methods.contract import Assessment, Client, Message
from feddiv.nets import ModelOptions
from feddiv.runs.evaluate import DoubtfulEvaluation
from feddiv.runs.prepare import prepare
from feddiv.runs.start_and_resume import Watcher
from feddiv.runs.summary import Closing, summarise

pytestmark = pytest.mark.slow  # whole runs or processes

SETTINGS = {
    "data.source": "npz",
    "model.name": "mlp",
    "rounds": 6,
    "warmup.iterations": 2,
    "train.epochs": 3,
    "against": [],
}


@dataclass(frozen=True)
class Wrong:
    """Vectors of three classes, a fifth of the labels wrong, and the truth."""

    inputs: np.ndarray
    given: np.ndarray
    truth: np.ndarray

    @classmethod
    def made(cls) -> "Wrong":
        rng = np.random.default_rng(4)
        truth = np.arange(300) % 3
        inputs = (rng.normal(0, 0.3, (300, 3)) + 2 * np.eye(3)[truth]).astype(np.float32)
        given = np.where(rng.random(300) < 0.2, (truth + 1) % 3, truth)
        return cls(inputs, given, truth)

    def saved(self, path: Path, **arrays: np.ndarray) -> dict[str, Any]:
        """Settings of a run on a file with these arrays."""
        np.savez(path, **{"x": self.inputs, "y": self.given, **arrays})
        return {**SETTINGS, "data.path": str(path)}


DATA = Wrong.made()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> feddiv.Run:
    folder = tmp_path_factory.mktemp("doubtful")
    settings = DATA.saved(folder / "own.npz")
    return feddiv.run("own", settings, out=folder / "run", workers=0)


def test_the_accuracy_on_believed_labels_stands_beside_and_is_near_the_truth(
    run: feddiv.Run,
) -> None:
    _, test = hold_out(DATA.given.astype(np.int64))
    predicted = feddiv.load(run.folder).predict(DATA.inputs[test])
    assert run.summary["doubtful_test_labels"] is True
    assert run.summary["last_test_accuracy"] == np.mean(predicted == DATA.given[test])
    true_accuracy = np.mean(predicted == DATA.truth[test])
    assert true_accuracy - run.summary["last_test_accuracy"] > 0.1
    assert abs(run.summary["last_believed_accuracy"] - true_accuracy) < 0.05
    assert 0.7 < run.summary["believed"] < 0.9
    assert run.rounds[0]["believed_accuracy"] is None, "in warm-up there is no filter to ask"
    assert run.summary["last_believed_accuracy"] == run.rounds[-1]["believed_accuracy"]


def test_looking_at_doubts_changes_no_model_and_no_other_measure(
    run: feddiv.Run, tmp_path: Path
) -> None:
    train, test = hold_out(DATA.given.astype(np.int64))
    arrays = {"x": DATA.inputs[train], "y": DATA.given[train]}
    arrays |= {"x_test": DATA.inputs[test], "y_test": DATA.given[test]}
    sure = feddiv.run(
        "own", DATA.saved(tmp_path / "x.npz", **arrays), out=tmp_path / "r", workers=0
    )
    assert "doubtful_test_labels" not in sure.summary
    assert "believed_accuracy" not in sure.rounds[-1]
    for key in ("model_hash", "last_test_accuracy", "best_round", "per_class_accuracy"):
        assert sure.summary[key] == run.summary[key]


def test_the_same_bits_with_workers_and_after_a_stop(run: feddiv.Run, tmp_path: Path) -> None:
    class Stop(Watcher):
        def round(self, line: dict[str, Any]) -> None:
            if line["turn"] == 4:
                raise KeyboardInterrupt

    settings = DATA.saved(tmp_path / "own.npz")
    with pytest.raises(KeyboardInterrupt):
        feddiv.run("own", settings, out=tmp_path / "run", workers=2, watcher=Stop())
    resumed = feddiv.resume(tmp_path / "run", workers=2)
    for key in ("test_accuracy", "believed_accuracy", "believed", "test_loss"):
        assert [line[key] for line in resumed.rounds] == [line[key] for line in run.rounds]
    assert resumed.summary["model_hash"] == run.summary["model_hash"]


def doubtful(settings: dict[str, Any]) -> bool:
    return prepare(load_experiment("own", settings)).doubtful_test


def test_which_test_labels_are_doubtful(tmp_path: Path) -> None:
    path = tmp_path / "own.npz"
    assert doubtful(DATA.saved(path))
    assert not doubtful({**DATA.saved(path), "noise.name": "symmetric", "noise.rho": 1.0}), (
        "whoever puts noise on labels takes them for the truth"
    )
    assert not doubtful(DATA.saved(path, y_true=DATA.truth))
    assert not doubtful({**DATA.saved(path), "evaluation.name": "held_out"})
    assert not doubtful({"data.source": "digits"})
    rows = [f"{label},{x[0]},{x[1]}" for x, label in zip(DATA.inputs, DATA.given, strict=True)]
    table = tmp_path / "own.csv"
    table.write_text("\n".join(["label,a,b", *rows]) + "\n")
    own = {**SETTINGS, "data.source": "table", "data.path": str(table)}
    assert doubtful(own)
    split = [f"{row},{'train' if n % 5 else 'test'}" for n, row in enumerate(rows)]
    table.write_text("\n".join(["label,a,b,split", *split]) + "\n")
    assert not doubtful(own)


@pytest.mark.parametrize("name", ["fedavg", "dividemix", "fedrn"])
def test_methods_of_other_opinions(name: str, tmp_path: Path) -> None:
    settings = {**DATA.saved(tmp_path / "own.npz"), "method.name": name, "rounds": 3}
    run = feddiv.run("own", settings, out=tmp_path / "run", workers=0)
    assert run.summary["doubtful_test_labels"] is True
    judges = name != "fedavg"
    assert (run.summary["last_believed_accuracy"] is not None) == judges
    assert (run.rounds[-1]["believed"] is not None) == judges


class Opinion:
    """A method that believes all test labels but the second and the third."""

    judges_unseen = True

    def weights(self, state: Array) -> Weights:
        return {}

    def assessment(self, state: Array) -> Message:
        return Message("assess")

    def assess_held_out(self, client: Client, memory: None, received: Message) -> Assessment:
        assert len(client) == 0
        assert client.held_out.given.tolist() == [0, 1, 2, 0, 1, 2]
        p_clean = np.array([0.5, 0.49, 0.1, 0.9, 0.9, 0.9])
        return Assessment(np.zeros(6, np.int64), p_clean)


class Logits:
    """A federation whose model is right on samples 0, 1, 3 and 4."""

    def evaluate(self, weights: Weights) -> np.ndarray:
        return np.eye(3, dtype=np.float32)[[0, 1, 0, 0, 1, 0]]


def test_believed_accuracy_in_numbers(small_data: Dataset, small_draw: Draw) -> None:
    method: Any = Opinion()
    federation: Any = Logits()
    workspace = Workspace(method, small_data, small_draw, ModelOptions(name="mlp"))
    evaluation = DoubtfulEvaluation(
        classes=3, labels=small_data.test.labels.numpy(), workspace=workspace
    )
    rng: Any = None
    measures = evaluation.measure(method, federation, None, rng)
    assert measures["test_accuracy"] == 4 / 6
    assert measures["believed_accuracy"] == 3 / 4  # of samples 0, 3, 4 and 5
    assert measures["believed"] == 4 / 6
    assert measures.keys() == evaluation.nothing().keys()


def test_a_summary_of_rounds_of_which_the_first_are_from_an_earlier_version() -> None:
    line = {"balanced_accuracy": 0, "per_class_accuracy": [], "bytes_up": 0, "bytes_down": 0}
    rounds: list[dict[str, Any]] = [
        {**line, "round": 1, "stage": "train", "test_accuracy": 0.5},
        {**line, "round": 2, "stage": "train", "test_accuracy": 0.6}
        | {"believed_accuracy": 0.8, "believed": 0.7},
    ]
    labels = np.array([0, 1])
    draw = Draw("npz", (np.arange(2),), labels, None, None, "")
    closing = Closing.of(draw, [(0, Assessment(labels))])
    summary = summarise(load_experiment(), ("a", "b"), draw, rounds, closing, 0.0, "ab")
    assert summary["mean_last10_test_accuracy"] == pytest.approx(0.55)
    assert summary["mean_last10_believed_accuracy"] == 0.8

"""TensorBoard and MLflow get the numbers of rounds.jsonl, also after a stop; they are read back."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import feddiv
from feddiv.config.reading import load_experiment
from feddiv.core.errors import UserError
from feddiv.runs.start_and_resume import Watcher
from feddiv.runs.tracking import Tracking, numbers_of

TINY = ["rounds=4", "warmup.iterations=1", "data.images=200", "train.epochs=1", "against=[]"]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard shows of a run."""
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    found = events.EventAccumulator(str(folder / "tensorboard"), size_guidance={"scalars": 0})
    found.Reload()
    return {
        key: [(each.step, each.value) for each in found.Scalars(key)]
        for key in found.Tags()["scalars"]
    }


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "rounds.jsonl").read_text().splitlines()]


def test_numbers_of_a_line() -> None:
    line = {"turn": 1, "round": 2, "test_accuracy": 0.5, "stage": "train", "missing": [3]}
    line |= {"filter": {"f1": 0.25, "recall": None}, "scores": {"low": 0.0}, "odd": True}
    assert numbers_of(line) == {"round": 2.0, "test_accuracy": 0.5, "filter.f1": 0.25}


@pytest.mark.slow
def test_tensorboard_has_the_rounds_under_their_names() -> None:
    run = feddiv.run("quickstart", [*TINY, "track=tensorboard"], out="run", workers=0)
    shown = scalars(run.folder)
    written = lines(run.folder)
    assert shown["test_accuracy"] == [
        (line["round"], pytest.approx(line["test_accuracy"])) for line in written
    ]
    assert shown["filter.f1"][-1][1] == pytest.approx(written[-1]["filter"]["f1"])
    assert shown["bytes_up"][-1][1] == written[-1]["bytes_up"]
    best = run.summary["best_test_accuracy"]
    assert shown["best_test_accuracy"] == [(4, pytest.approx(best))]
    plain = feddiv.run("quickstart", TINY, out="plain", workers=0)
    assert plain.summary["model_hash"] == run.summary["model_hash"]
    assert not (plain.folder / "tensorboard").exists()


class Stops(Watcher):
    """Stops the run after its second turn."""

    def round(self, line: dict[str, Any]) -> None:
        if line["turn"] == 2:
            raise KeyboardInterrupt


@pytest.mark.slow
@pytest.mark.parametrize("track", ["tensorboard", "mlflow"])
def test_a_run_that_was_stopped_goes_on_in_its_tracker(track: str) -> None:
    settings = [*TINY, f"track={track}", "checkpoint.seconds=0"]
    with pytest.raises(KeyboardInterrupt):
        feddiv.run("quickstart", settings, out="run", workers=0, watcher=Stops())
    if track == "mlflow":
        assert mlflow_run().info.status == "KILLED"
    run = feddiv.resume("run", workers=0)
    rounds = [line["round"] for line in lines(run.folder)]
    if track == "tensorboard":
        assert [step for step, _ in scalars(run.folder)["test_accuracy"]] == rounds
    else:
        found = mlflow_run()
        assert found.info.status == "FINISHED"
        assert [each.step for each in history(found, "test_accuracy")] == rounds


def client() -> Any:
    store = pytest.importorskip("mlflow.tracking")
    return store.MlflowClient(Path("mlruns").absolute().as_uri())


def mlflow_run() -> Any:
    """The only run that the store in this folder has."""
    found = client()
    experiment = found.get_experiment_by_name("feddiv")
    (run,) = found.search_runs([experiment.experiment_id])
    return run


def history(run: Any, key: str) -> list[Any]:
    return client().get_metric_history(run.info.run_id, key)


@pytest.mark.slow
def test_mlflow_has_the_rounds_and_the_settings() -> None:
    run = feddiv.run("quickstart", [*TINY, "track=mlflow"], out="run", workers=0)
    found, written = mlflow_run(), lines(run.folder)
    assert [(each.step, each.value) for each in history(found, "test_accuracy")] == [
        (line["round"], line["test_accuracy"]) for line in written
    ]
    assert found.data.metrics["filter.f1"] == written[-1]["filter"]["f1"]
    assert found.data.metrics["best_test_accuracy"] == run.summary["best_test_accuracy"]
    assert found.data.params["method.name"] == "feddiv"
    assert found.data.params["noise.rho"] == "0.8"
    assert found.info.run_name == "feddiv run"
    assert found.info.status == "FINISHED"
    metrics = {path.name for path in Path("mlruns").rglob("metrics/*")}  # MLflow's own files
    assert {"test_accuracy", "filter.f1", "divergence", "memorisation"} <= metrics


@pytest.mark.parametrize("track", ["tensorboard", "mlflow"])
def test_a_tracker_that_is_not_installed_is_one_line_before_anything_is_written(
    track: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, track, None)
    said = rf"track={track}: is not installed; pip install 'feddiv\[{track}\]', or track=none"
    with pytest.raises(UserError, match=said):
        feddiv.run("quickstart", [*TINY, f"track={track}"], out="run", workers=0)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_tracker_is_refused() -> None:
    with pytest.raises(UserError, match="track='wandb'"):
        load_experiment("quickstart", ["track=wandb"])


def test_a_store_that_cannot_be_used_is_refused_with_nothing_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "nonsense://nowhere")
    with pytest.raises(UserError, match="track=mlflow: "):
        feddiv.run("quickstart", [*TINY, "track=mlflow"], out="run", workers=0)
    assert list(tmp_path.iterdir()) == []


def test_a_tracker_that_fails_is_left_out_and_told_once(tmp_path: Path) -> None:
    said: list[str] = []

    class Broken:
        calls = 0

        def numbers(self, values: object, step: int) -> None:
            self.calls += 1
            raise OSError("no space left")

        def close(self, ending: str) -> None:
            raise AssertionError("it is gone already")

    with Tracking(load_experiment("quickstart"), tmp_path, said.append) as tracked:
        broken = tracked.tracker = Broken()
        for turn in (1, 2):
            tracked.round({"round": turn, "test_accuracy": 0.5})
    assert broken.calls == 1
    assert said == ["tracking has stopped (OSError: no space left); the run goes on without"]

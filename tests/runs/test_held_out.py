"""Whole runs without a clean test set."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import feddiv
from feddiv.config.reading import load_experiment
from feddiv.config.sections import Central, HeldOut
from feddiv.core.errors import UserError
from feddiv.data import Draw
from feddiv.runs.prepare import prepare
from feddiv.runs.start_and_resume import Watcher

pytestmark = pytest.mark.slow

HELD_OUT = {
    "rounds": 4,
    "warmup.iterations": 1,
    "data.images": 300,
    "train.epochs": 1,
    "against": [],
    "evaluation.name": "held_out",
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> feddiv.Run:
    out = tmp_path_factory.mktemp("runs") / "held_out"
    longer = {"rounds": 10, "warmup.iterations": 2, "data.images": 600, "train.epochs": 3}
    return feddiv.run("quickstart", {**HELD_OUT, **longer}, out=out, workers=0)


def test_a_run_reports_accuracy_on_given_and_on_believed_labels(run: feddiv.Run) -> None:
    summary, last = run.summary, run.rounds[-1]
    assert summary["best_test_accuracy"] is None
    assert summary["last_held_out_accuracy"] == last["held_out_accuracy"]
    assert summary["last_believed_accuracy"] == last["believed_accuracy"]
    assert summary["mean_last10_held_out_accuracy"] == pytest.approx(
        np.mean([line["held_out_accuracy"] for line in run.rounds if line["stage"] == "train"])
    )
    assert summary["held_out_samples"] == 120
    assert run.rounds[0]["stage"] == "warmup"
    assert run.rounds[0]["believed_accuracy"] is None
    # Half of the given labels are wrong, so that accuracy against them says little.
    truth = summary["last_held_out_true_accuracy"]
    assert abs(last["believed_accuracy"] - truth) < 0.15 < truth - last["held_out_accuracy"]
    assert len(run.assessment["sample"]) == 480  # what was trained on is what is assessed
    assert (run.folder / "best.safetensors").is_file()
    assert (run.folder / "picture.png").is_file()


def test_no_held_out_sample_is_trained_on_and_the_test_set_is_not_looked_at(
    run: feddiv.Run,
) -> None:
    draw = Draw.load(run.folder / "draw.npz")
    assert draw.held_out is not None
    assert sum(map(len, draw.held_out)) + sum(map(len, draw.parts)) == 600
    visits = [json.loads(line) for line in (run.folder / "clients.jsonl").open()]
    sizes = {visit["client"]: visit["samples"] for visit in visits}
    assert all(sizes[client] == len(draw.parts[client]) for client in sizes)
    prepared = prepare(load_experiment(run.folder / "config.toml"), draw)
    assert len(prepared.dataset.test) == 0


@pytest.mark.parametrize("method", ["feddiv", "fedrn"])
def test_the_bits_are_the_same_with_workers_and_after_a_stop(method: str, tmp_path: Path) -> None:
    settings = {**HELD_OUT, "method.name": method, "checkpoint.seconds": 0}
    straight = feddiv.run("quickstart", settings, out=tmp_path / "straight", workers=0)
    two = feddiv.run("quickstart", settings, out=tmp_path / "two", workers=2)

    class Stop(Watcher):
        def round(self, line: dict[str, Any]) -> None:
            if line["turn"] == 2:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        feddiv.run("quickstart", settings, out=tmp_path / "stopped", workers=0, watcher=Stop())
    resumed = feddiv.resume(tmp_path / "stopped", workers=2)
    for other in (two, resumed):
        assert other.summary["model_hash"] == straight.summary["model_hash"]
        assert timeless(other) == timeless(straight)


def timeless(run: feddiv.Run) -> list[dict[str, Any]]:
    return [
        {key: value for key, value in line.items() if not key.endswith("seconds")}
        for line in run.rounds
    ]


def test_rounds_between_evaluations_say_nothing(tmp_path: Path) -> None:
    settings = {**HELD_OUT, "method.name": "fedavg", "evaluation.every": 3}
    run = feddiv.run("quickstart", settings, out=tmp_path / "run", workers=0)
    measured = [line["held_out_accuracy"] is not None for line in run.rounds]
    assert measured == [False, False, True, True]
    assert run.summary["mean_last10_believed_accuracy"] is None
    assert run.rounds[0]["examination_bytes_up"] is None


def test_the_split_of_a_saved_draw_is_used_again(run: feddiv.Run) -> None:
    file = str(run.folder / "draw.npz")
    again = load_experiment("quickstart", {**HELD_OUT, "data.images": 600, "data.draw": file})
    assert prepare(again).draw.hash == run.summary["draw"]
    for changes, reason in (
        ({"evaluation.share": 0.5}, r"evaluation\.share=0\.5 would be"),
        ({"evaluation.name": "central"}, r"it is for evaluation\.name=held_out"),
    ):
        other = load_experiment(again, changes)
        with pytest.raises(UserError, match=reason):
            prepare(other)


def test_data_without_test_samples_lends_none_to_be_wasted(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(100) % 4
    x = rng.normal(labels[:, None], 0.1, (100, 3)).astype(np.float32)
    np.savez(tmp_path / "own.npz", x=x, y=labels)
    own = {"data.source": "npz", "data.path": str(tmp_path / "own.npz"), "model.name": "mlp"}
    own |= {"noise.name": "none", "clients.count": 4}
    central = prepare(load_experiment(None, own))
    assert (len(central.dataset.train), len(central.dataset.test)) == (80, 20)
    held_out = prepare(load_experiment(None, {**own, "evaluation.name": "held_out"}))
    assert (len(held_out.dataset.train), len(held_out.dataset.test)) == (100, 0)
    assert held_out.draw.held_out is not None
    assert sum(map(len, held_out.draw.parts)) == 80
    half = prepare(load_experiment(None, {**own, "data.test_share": 0.5}))
    assert len(half.dataset.test) == 52  # 13 of each 25
    with pytest.raises(UserError, match="there are no test samples; evaluation"):
        prepare(load_experiment(None, {**own, "data.test_share": 0.0}))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"data.test_images": 50}, r"data\.test_images=50: evaluation\.name=held_out looks at no"),
        ({"data.test_share": 0.3}, r"data\.test_share=0\.3: data\.source=digits has no use"),
        ({"clients.count": 100}, "every client has fewer than 5 samples"),
    ],
)
def test_what_makes_no_sense_is_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        prepare(load_experiment("quickstart", {**HELD_OUT, **changes}))


def test_the_section_has_a_name_and_only_held_out_a_share() -> None:
    assert load_experiment("quickstart").evaluation == Central()
    chosen = load_experiment("quickstart", ["evaluation.name=held_out", "evaluation.share=0.1"])
    assert chosen.evaluation == HeldOut(share=0.1)
    sparse = load_experiment(chosen, {"evaluation.every": 5})
    assert load_experiment(sparse, ["evaluation.name=central"]).evaluation == Central(every=5)
    for changes, reason in (
        (["evaluation.share=0.1"], r"evaluation\.share is for evaluation\.name=held_out\); allow"),
        (["evaluation.name=nowhere"], r"evaluation\.name='nowhere' is unknown; allowed: central"),
        (["evaluation.name=held_out", "evaluation.share=1.0"], r"evaluation\.share=1\.0"),
    ):
        with pytest.raises(UserError, match=reason):
            load_experiment("quickstart", changes)

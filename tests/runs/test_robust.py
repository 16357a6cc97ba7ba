"""Whole runs with robust aggregates: the same bits whoever carries them and after a stop."""

import json
from pathlib import Path
from typing import Any

import pytest

import feddiv
from feddiv.core.errors import Diverged
from feddiv.core.files import load_tensors
from feddiv.runs.checkpoint import FOLDER
from feddiv.runs.start_and_resume import Watcher

RUN = {
    "method.name": "feddiv",
    "warmup.iterations": 1,
    "rounds": 5,
    "data.images": 160,
    "train.epochs": 1,
    "clients.count": 5,
    "against": [],
    "checkpoint.seconds": 0,
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "robust",
    [
        {"robust.weights": "clip", "robust.filter": "trimmed_mean"},
        {"robust.weights": "geometric_median", "robust.filter": "median"},
        {
            **{"robust.weights": "aligned", "robust.substitutes": True},
            **{"method.warmup.mode": "average", "clients.fraction": 0.6},
            "method.warmup.momentum": 0.5,
        },
        {
            **{"robust.weights": "aligned", "robust.opposed": "turned_back"},
            **{"robust.introductions": 1, "robust.clip": 0.9},
        },
    ],
)
def test_a_robust_run_has_the_same_bits_with_workers_and_after_a_stop(
    robust: dict[str, str], tmp_path: Path
) -> None:
    settings = {**RUN, **robust}
    whole = feddiv.run("quickstart", settings, out=tmp_path / "whole", workers=0)
    plain = feddiv.run("quickstart", RUN, out=tmp_path / "plain", workers=0)
    assert whole.summary["model_hash"] != plain.summary["model_hash"]
    workers = feddiv.run("quickstart", settings, out=tmp_path / "workers", workers=2)
    assert workers.summary["model_hash"] == whole.summary["model_hash"]
    # Three rounds, then two more: what is remembered of updates is in the checkpoint.
    part = feddiv.run("quickstart", {**settings, "rounds": 3}, out=tmp_path / "part", workers=0)
    assert any((part.folder / FOLDER).glob("*.safetensors"))
    assert load_tensors(part.folder / "model.safetensors")[0]
    longer = feddiv.resume(part.folder, {"rounds": 5})
    assert longer.summary["model_hash"] == whole.summary["model_hash"]


@pytest.mark.slow
def test_where_all_agree_a_look_at_updates_before_a_hand_over_changes_no_bit(
    tmp_path: Path,
) -> None:
    plain = feddiv.run("quickstart", RUN, out=tmp_path / "plain", workers=0)
    aligned = {"robust.weights": "aligned", "robust.opposed": "turned_back", "robust.clip": 1000}
    looked = feddiv.run("quickstart", {**RUN, **aligned}, out=tmp_path / "looked", workers=0)
    assert looked.summary["model_hash"] == plain.summary["model_hash"]
    journal = (looked.folder / "clients.jsonl").read_text()
    assert journal.count('"introduced"') == 5
    assert "left_out" not in journal
    assert "turned_back" not in journal
    assert looked.summary["bytes_up"] > plain.summary["bytes_up"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"method.warmup.mode": "average", "method.warmup.momentum": 0.5, "model.name": "mlp"},
        {"robust.weights": "aligned", "robust.introductions": 1},
    ],
)
def test_a_run_that_is_stopped_in_warm_up_goes_on_with_the_same_bits(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    settings = {**RUN, "warmup.iterations": 2, **settings}
    straight = feddiv.run("quickstart", settings, out=tmp_path / "straight", workers=0)

    class Stop(Watcher):
        def round(self, line: dict[str, Any]) -> None:
            if line["turn"] == 1:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        feddiv.run("quickstart", settings, out=tmp_path / "part", workers=0, watcher=Stop())
    resumed = feddiv.resume(tmp_path / "part")
    assert resumed.summary["model_hash"] == straight.summary["model_hash"]


@pytest.mark.slow
def test_a_diverging_hand_over_ends_in_its_line_whatever_the_introductions(tmp_path: Path) -> None:
    aligned = {**RUN, "robust.weights": "aligned", "train.lr": 1e30}
    with pytest.raises(Diverged, match="no reply of turn 1 could be used"):
        feddiv.run("quickstart", aligned, out=tmp_path / "run", workers=0)


@pytest.mark.slow
def test_only_a_hand_over_is_introduced(tmp_path: Path) -> None:
    settings = {**RUN, "robust.weights": "aligned", "clients.fraction": 0.2, "rounds": 8}
    run = feddiv.run("quickstart", settings, out=tmp_path / "run", workers=0)
    lines = [json.loads(x) for x in (run.folder / "clients.jsonl").read_text().splitlines()]
    introduced = [(line["stage"], line["turn"]) for line in lines if "introduced" in line]
    assert introduced == [("warmup", 1)] * 5  # though one client a round trains alone later too
    assert sum(line["kind"] == "train" for line in lines) == 3


@pytest.mark.slow
def test_no_site_counts_for_more_than_the_largest(tmp_path: Path) -> None:
    # Every client has 32 samples or fewer, so a bound of 1000 changes nothing, one of 1 makes all
    # clients count the same.
    settings = {**RUN, "method.name": "fedavg", "partition.name": "quantity", "rounds": 2}
    runs = {
        size: feddiv.run(
            "quickstart",
            {**settings, "federation.largest_site": size} if size else settings,
            out=tmp_path / str(size),
            workers=0,
        ).summary["model_hash"]
        for size in (None, 1000, 1)
    }
    assert runs[1000] == runs[None]
    assert runs[1] != runs[None]

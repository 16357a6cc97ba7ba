"""Runs that earlier versions began or finished: they are read, and go on with the same bits."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import feddiv

BEGUN = Path(__file__).parent / "made_before"  # by version 0.1.0 of 2026-11-17, stopped in turn 4


def test_a_run_that_was_begun_before_goes_on_as_if_it_were_begun_now(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    shutil.copytree(BEGUN, begun)
    done = (BEGUN / "rounds.jsonl").read_text().splitlines()[:3]
    resumed = feddiv.resume(begun, workers=0)
    assert (begun / "rounds.jsonl").read_text().splitlines()[:3] == done
    fresh = feddiv.run(BEGUN / "config.toml", out=tmp_path / "fresh", workers=0)
    assert resumed.summary["draw"] == fresh.summary["draw"]
    if made_alike(BEGUN, fresh.folder):
        assert resumed.summary["model_hash"] == fresh.summary["model_hash"]
    again = tmp_path / "again"
    shutil.copytree(BEGUN, again)
    assert feddiv.resume(again, workers=1).summary["model_hash"] == resumed.summary["model_hash"]
    losses = [run.rounds[-1]["test_loss"] for run in (resumed, fresh)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


def made_alike(one: Path, other: Path) -> bool:
    """Whether the rounds that both have were made with the same bits: not by every processor."""
    told = [(folder / "rounds.jsonl").read_text().splitlines()[:3] for folder in (one, other)]
    first, second = ([json.loads(line)["test_loss"] for line in lines] for lines in told)
    return bool(first == second)


def test_a_model_that_was_trained_before_predicts() -> None:
    model = feddiv.load(BEGUN / "older_model.safetensors")
    assert model.classes == tuple("0123456789")
    assert len(model.predict(np.zeros((3, 8, 8, 1), np.uint8))) == 3

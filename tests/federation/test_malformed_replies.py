"""Whatever a client sends, the round loop goes on, and honest replies of the round count."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.federation.malformed import EVERY, hostile_run

from feddiv.federation.reply_check import check_reply
from feddiv.methods.contract import Declared, Kind, Message, Reply
from feddiv.testing.odd_clients import write_trial
from feddiv.testing.trial import journal

# Tensors of fewer bits are about to leave torch; until then one may come.
pytestmark = pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")

ALL = 20_000


def check_hostile_run(name: str, folder: Path, many: int) -> int:
    """The model is that of the honest replies alone, to the bit; how many were refused."""
    settings = write_trial(folder / "data") | {
        "method.name": name,
        "train.epochs": 1,
        "against": [],
    }
    honest, _ = hostile_run(settings, folder / "honest", 0)
    attacked, log = hostile_run(settings, folder / "attacked", many)
    assert attacked.summary["model_hash"] == honest.summary["model_hash"]
    lines = journal(folder / "attacked", "clients.jsonl")
    reasons = [line["refused"] for line in lines if "refused" in line]
    assert len(reasons) == log.bad
    assert max(map(len, reasons)) <= 300
    assert not any("\n" in reason or "\x1b" in reason for reason in reasons)
    assert [line["missing"] for line in attacked.rounds] == [
        line["missing"] for line in honest.rounds
    ]
    return log.bad


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
def test_honest_replies_count_beside_malformed_ones(name: str, tmp_path: Path) -> None:
    assert check_hostile_run(name, tmp_path, 4) >= 90


@pytest.mark.full
def test_twenty_thousand_malformed_replies_over_all_methods(tmp_path: Path) -> None:
    total = sum(check_hostile_run(name, tmp_path / name, 80) for name in EVERY)
    assert total >= ALL


def test_numbers_that_are_odd_but_true_are_taken() -> None:
    kind = Kind({"a": Declared((3,), low=0.0), "m": Declared((), low=0.0, metric=True)})
    sent = Message("train", {"net": {"weight": torch.zeros(2)}})
    odd = {"a": np.array([-0.0, 5e-324, 1e308])}
    state = {"weight": torch.tensor([-0.0, 1e-45])}
    reply = Reply(0, 7, {"net": state}, odd, {"m": -0.0})
    check_reply(reply, kind, sent, 7)
    check_reply(replace(reply, metrics={"m": np.float64(5e-324)}), kind, sent, 7)
    check_reply(replace(reply, weights={"net": {"weight": torch.full((2,), 3e38)}}), kind, sent, 7)

"""A method whose clients keep a net each: it lives in files that the checkpoint refers to."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pytest

import feddiv
from feddiv.core.randomness import Streams
from feddiv.learning.average import StateDict
from feddiv.methods.averaging import Averaging
from feddiv.methods.common import copy_of
from feddiv.methods.contract import Client, Message, Visit
from feddiv.methods.fedavg import FedAvg, FedAvgOptions
from feddiv.methods.registry import METHODS
from feddiv.runs.start_and_resume import Watcher

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Kept:
    """The client's own last model."""

    net: StateDict
    visits: int


class KeeperOptions(FedAvgOptions):
    name: Literal["keeper"] = "keeper"  # type: ignore[assignment]


class Keeper(FedAvg, Averaging[Kept]):  # type: ignore[misc]
    """FedAvg whose clients start half-way between the global model and their own last one."""

    name, summary, paper = "keeper", "", ""
    Options = KeeperOptions

    def visit(  # type: ignore[override]
        self, client: Client, memory: Kept | None, received: Message, rng: Streams
    ) -> Visit[Kept]:
        sent = received.weights["net"]
        if memory is not None:
            sent = {key: (value + memory.net[key]) / 2 for key, value in sent.items()}
            sent |= {k: v for k, v in received.weights["net"].items() if not v.is_floating_point()}
        visit = super().visit(client, None, replace(received, weights={"net": sent}), rng)
        net = copy_of(client.net(visit.reply.weights["net"]))
        return replace(visit, memory=Kept(net, 1 if memory is None else memory.visits + 1))


SETTINGS: dict[str, Any] = {
    "method.name": "keeper",
    "rounds": 8,
    "data.images": 120,
    "train.epochs": 1,
    "clients.count": 4,
    "checkpoint.seconds": 0.0,
    "against": [],
}


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "keeper", Keeper)


class Stop(Watcher):
    def __init__(self) -> None:
        self.left = 5

    def round(self, line: dict[str, Any]) -> None:
        self.left -= 1
        if not self.left:
            raise ZeroDivisionError


def test_the_same_bits_with_workers_and_after_a_stop(tmp_path: Path) -> None:
    whole = feddiv.run(None, SETTINGS, out=tmp_path / "whole", workers=0)
    files = list((tmp_path / "whole" / "checkpoint" / "nets").iterdir())
    assert 4 <= len(files) <= 4 + 2  # one per client, and those the checkpoint before refers to
    with pytest.raises(ZeroDivisionError):
        feddiv.run(None, SETTINGS, out=tmp_path / "run", workers=2, watcher=Stop())
    resumed = feddiv.resume(tmp_path / "run", workers=2)
    assert resumed.summary["model_hash"] == whole.summary["model_hash"]


def test_a_checkpoint_whose_net_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        feddiv.run(None, SETTINGS, out=tmp_path / "run", workers=0, watcher=Stop())
    for file in (tmp_path / "run" / "checkpoint" / "nets").iterdir():
        file.unlink()
    with pytest.raises(feddiv.UserError, match=r"refers to nets/.*, which is missing"):
        feddiv.resume(tmp_path / "run")

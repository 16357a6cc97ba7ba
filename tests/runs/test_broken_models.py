"""Replies that pass every check of shape and still would end a run: it goes on without them."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

from feddiv.config.reading import load_experiment
from feddiv.core.arrays import StateDict
from feddiv.core.errors import Diverged
from feddiv.core.files import load_tensors
from feddiv.core.randomness import Streams
from feddiv.federation.federation import Absence
from feddiv.federation.in_process import InProcess
from feddiv.methods.contract import Exchange, Visit
from feddiv.runs.checkpoint import HEADER
from feddiv.runs.prepare import prepare
from feddiv.runs.run import Run, execute
from feddiv.runs.run_folder import RunFolder

Break = Callable[[str, torch.Tensor], torch.Tensor]
LIAR = 1
NOT_ASKED = "not asked up to turn 11: the norm of its update in turn 1 was over 20 times"
SETTINGS = [
    "rounds=3",
    "against=",
    "method.name=fedavg",
    "clients.count=5",
    "clients.fraction=1.0",
    "noise.name=none",
    "train.batch=32",
    "train.lr=0.1",
    "train.epochs=3",
]


class WithLiars(InProcess):
    """One client sends broken weights; with `everyone`, all do."""

    broken: Break
    everyone = False
    trained: ClassVar[list[int]] = []

    def visits(self, exchange: Exchange, rng: Streams) -> Iterator[Visit[Any] | Absence]:
        for visit in super().visits(exchange, rng):
            reply = visit.reply
            self.trained.append(reply.client)
            if reply.weights is not None and (self.everyone or reply.client == LIAR):
                net: StateDict = {
                    key: self.broken(key, value) for key, value in reply.weights["net"].items()
                }
                visit = replace(visit, reply=replace(reply, weights={"net": net}))
            yield visit


def run(tmp_path: Path, broken: Break, *more: str, everyone: bool = False) -> tuple[Run, list[Any]]:
    class Federation(WithLiars):
        pass

    Federation.broken, Federation.everyone = staticmethod(broken), everyone
    experiment = load_experiment("quickstart", [*SETTINGS, *more])
    prepared, folder = prepare(experiment), RunFolder(tmp_path / "run")
    folder.begin(experiment, prepared.draw)
    try:
        found = execute(
            prepared, folder, carrier=lambda prepared, _: Federation(prepared.workspace)
        )
    finally:
        folder.unlock()
    return found, [json.loads(line) for line in open(tmp_path / "run" / "clients.jsonl")]


def all_huge(key: str, value: torch.Tensor) -> torch.Tensor:
    return torch.full_like(value, 3.4e38) if value.is_floating_point() else value


def negative_variance(key: str, value: torch.Tensor) -> torch.Tensor:
    return -value - 1 if key.endswith("running_var") else value


def largest_count(key: str, value: torch.Tensor) -> torch.Tensor:
    """One more batch, and it is negative."""
    return value if value.is_floating_point() else torch.full_like(value, 2**63 - 1)


def huge(key: str, value: torch.Tensor) -> torch.Tensor:
    """Finite, and so are its outputs; but nobody can go on from it."""
    return value + 1e11 if key.endswith("weight") and value.dim() > 1 else value


def overflowing(key: str, value: torch.Tensor) -> torch.Tensor:
    """Finite, of a norm that is taken; three layers of it are not."""
    return value + 5e12 if key.endswith("weight") and value.dim() > 1 else value


@pytest.mark.slow
@pytest.mark.parametrize(
    ("broken", "why", "more"),
    [
        (all_huge, "its update has norm", ()),
        (negative_variance, "running_var is negative", ()),
        (huge, "its update has norm", ()),
        (largest_count, "is a whole number that no visit comes to", ()),
        (
            largest_count,
            "is a whole number that no visit comes to",
            ("method.name=feddiv", "warmup.iterations=2"),
        ),
        # Of two nobody can say whose update is usual: each model is tried by itself.
        (overflowing, "its model's outputs are not finite", ("clients.count=2",)),
        # One client after the other, each from the model of the one before.
        (huge, "its update has norm", ("method.name=feddiv", "warmup.iterations=2")),
    ],
)
def test_a_run_goes_on_without_who_sends_a_broken_model(
    tmp_path: Path, broken: Break, why: str, more: tuple[str, ...]
) -> None:
    found, lines = run(tmp_path, broken, *more)
    assert found.summary["last_test_accuracy"] > 0.5
    refused = [line for line in lines if "refused" in line]
    assert {line["client"] for line in refused} == {LIAR}
    assert all(why in line["refused"] or NOT_ASKED in line["refused"] for line in refused)
    # One line for each visit, also where an exchange was made again.
    visits = [(line["turn"], line["kind"], line["client"]) for line in lines]
    assert len(visits) == len(set(visits))
    taken = [line for line in lines if line["kind"] in ("train", "warmup") and line not in refused]
    assert all(0 < line["update_norm"] < 100 for line in taken)


class HardlyMoving(InProcess):
    """Three of the five clients send next to nothing, and are most of everybody."""

    def visits(self, exchange: Exchange, rng: Streams) -> Iterator[Visit[Any] | Absence]:
        for visit in super().visits(exchange, rng):
            reply = visit.reply
            if reply.weights is not None and reply.client < 3:
                sent = exchange.to(reply.client).weights["net"]
                net = {
                    key: torch.lerp(sent[key], value, 1e-3) if value.is_floating_point() else value
                    for key, value in reply.weights["net"].items()
                }
                visit = replace(visit, reply=replace(reply, weights={"net": net}))
            yield visit


@pytest.mark.slow
def test_honest_clients_are_not_refused_where_most_send_next_to_nothing(tmp_path: Path) -> None:
    experiment = load_experiment("quickstart", SETTINGS)
    prepared, folder = prepare(experiment), RunFolder(tmp_path / "run")
    folder.begin(experiment, prepared.draw)
    try:
        execute(prepared, folder, carrier=lambda prepared, _: HardlyMoving(prepared.workspace))
    finally:
        folder.unlock()
    told = (tmp_path / "run" / "clients.jsonl").read_text().splitlines()
    lines = [json.loads(line) for line in told]
    norms = [line["update_norm"] for line in lines if line["turn"] == 1]
    assert max(norms) > 20 * sorted(norms)[2]  # far out, if the median of the exchange were all
    assert not [line for line in lines if "refused" in line]


@pytest.mark.slow
def test_a_liar_does_not_make_everybody_train_twice_in_every_round(tmp_path: Path) -> None:
    WithLiars.trained = []
    _, lines = run(tmp_path, huge, "checkpoint.seconds=0.0")
    refused = [line["refused"] for line in lines if "refused" in line]
    assert refused[0].startswith("its update has norm")
    assert [NOT_ASKED in why for why in refused] == [False, True, True]
    # All five in the first round, once more without the liar, then the four in two rounds.
    assert WithLiars.trained.count(LIAR) == 1
    assert len(WithLiars.trained) == 5 + 4 + 4 + 4
    # Whoever goes on with the run knows it.
    last = max((tmp_path / "run" / "checkpoint").glob("*.safetensors"))
    content = json.loads(load_tensors(last)[1][HEADER])
    assert content["barred"] == {"items": [[LIAR, 11]]}


@pytest.mark.slow
def test_where_nobody_can_be_blamed_the_run_has_diverged(tmp_path: Path) -> None:
    with pytest.raises(Diverged, match=r"no reply of turn 1 could be used; client 1: its model's"):
        run(tmp_path, overflowing, everyone=True)

"""Whole runs of a few rounds, in memory: every variant, twice the same, odd federations."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.conftest import remembered

import feddiv
from feddiv.config.reading import load_experiment
from feddiv.core.errors import Diverged, UserError
from feddiv.core.randomness import Streams
from feddiv.federation.in_process import InProcess
from feddiv.methods.registry import METHODS
from feddiv.runs.evaluate import CentralEvaluation
from feddiv.runs.loop import Loop
from feddiv.runs.prepare import prepare

pytestmark = pytest.mark.slow  # whole runs or processes

TINY = {
    "data.images": 120,
    "data.test_images": 60,
    "clients.count": 4,
    "clients.fraction": 0.5,
    "rounds": 5,
    "warmup.iterations": 1,  # two rounds' worth; three filtered ones are left
    "train.epochs": 1,
}
NOISE = {"noise.name": "symmetric", "noise.rho": 0.8, "noise.tau": 0.5}


@dataclass
class Played:
    loop: Loop
    federation: InProcess
    rounds: list[dict[str, Any]]
    clients: list[dict[str, Any]]

    @property
    def nets(self) -> dict[str, dict[str, torch.Tensor]]:
        return self.loop.method.weights(self.loop.state)

    @property
    def net(self) -> dict[str, torch.Tensor]:
        return self.nets["net"]


def play(noise: bool = True, **settings: object) -> Played:
    """Run to the end without a folder; settings are dotted keys with __ for the dot."""
    dotted = {key.replace("__", "."): value for key, value in settings.items()}
    experiment = load_experiment(None, {**TINY, **(NOISE if noise else {}), **dotted})
    prepared = prepare(experiment)
    federation = InProcess(prepared.workspace)
    test = prepared.dataset.test.labels.numpy()
    rounds: list[dict[str, Any]] = []
    clients: list[dict[str, Any]] = []
    loop = Loop(
        prepared.workspace.method,
        federation,
        CentralEvaluation(labels=test, classes=len(prepared.dataset.classes)),
        Streams(experiment.seed),
        on_client=clients.append,
        on_round=lambda line, weights: rounds.append(line),
    )
    loop.run()
    return Played(loop, federation, rounds, clients)


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(value, other[key]) for key, value in one.items())


def finite(state: dict[str, torch.Tensor]) -> bool:
    return all(bool(value.isfinite().all()) for value in state.values())


EVERY = [(name, variant) for name, found in METHODS.items() for variant in found.variants]


@pytest.mark.parametrize(("name", "variant"), EVERY)
def test_every_variant_runs(name: str, variant: str) -> None:
    played = play(method__name=name, method__variant=variant)
    assert all(finite(net) for net in played.nets.values())
    assert played.rounds[-1]["round"] == 5
    assert all(not line["missing"] for line in played.rounds)
    assert not [line for line in played.clients if "refused" in line]
    assert all(np.isfinite(line["test_loss"]) for line in played.rounds)
    trained = [line for line in played.clients if line["kind"] == "train"]
    if (name, variant) == ("feddiv", "audit"):
        assert [line["kind"] for line in played.clients] == ["bias"] * 4 + ["filter"] * 4
        assert np.isfinite(played.rounds[-1]["mixture"]).all()
    elif name == "feddiv":
        assert [line["stage"] for line in played.rounds] == ["warmup", "train", "train", "train"]
        assert len(trained) == 3 * 2
        mixture = played.rounds[-1]["mixture"]
        alone = variant in ("local-filter", "perfect-filter")
        assert mixture is None if alone else np.isfinite(mixture).all()
    message = played.loop.method.assessment(played.loop.state)
    opinions = dict(played.federation.assess(message, Streams(0)))
    assert sorted(opinions) == [0, 1, 2, 3]


@pytest.mark.parametrize("variant", ["plus", "release"])
def test_the_same_seed_gives_the_same_bits_and_another_does_not(variant: str) -> None:
    first, again, other = (play(method__variant=variant, seed=seed) for seed in (1, 1, 2))
    assert same(first.net, again.net)
    assert first.clients == again.clients
    assert not same(first.net, other.net)


def test_partial_participation() -> None:
    played = play(clients__fraction=0.25, rounds=6, warmup__iterations=1)
    assert [line["round"] for line in played.rounds] == [4, 5, 6]
    train = [line["client"] for line in played.clients if line["kind"] == "train"]
    assert len(train) == 2
    # Everybody took part in warm-up and in the openings, and only some have been visited since.
    for kind in ("warmup", "bias", "filter"):
        assert sorted(e["client"] for e in played.clients if e["kind"] == kind) == [0, 1, 2, 3]
    visits = {client: memory.visits for client, memory in remembered(played.federation).items()}
    assert visits == {client: train.count(client) for client in range(4)}
    assert played.loop.state.ledger.histogram.sum() == 120


def test_averaged_warm_up_runs() -> None:
    played = play(method__warmup__mode="average")
    assert [line["stage"] for line in played.rounds] == ["warmup"] * 2 + ["train"] * 3
    assert [line["round"] for line in played.rounds] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("variant", ["plus", "paper", "release"])
def test_no_noise_and_no_warm_up(variant: str) -> None:
    played = play(method__variant=variant, noise=False, warmup__iterations=0, rounds=3)
    assert finite(played.net)
    assert [line["round"] for line in played.rounds] == [1, 2, 3]


@pytest.mark.parametrize("seed", [0, 2])
def test_a_filter_that_keeps_nothing_does_not_stop_the_run_for_good(seed: int) -> None:
    # An untrained model gives all labels about the same score, which one component swallows.
    played = play(noise=False, seed=seed, warmup__iterations=0, rounds=6)
    trained = [line for line in played.clients if line.get("divergence", 0) > 0]
    assert trained


def test_the_servers_totals_are_those_of_the_clients() -> None:
    played = play(rounds=8)
    ledger, memories = played.loop.state.ledger, remembered(played.federation).values()
    assert np.array_equal(ledger.histogram, sum(m.filter.summary for m in memories))
    assert ledger.softmax == pytest.approx(sum(m.filter.softmax for m in memories))
    tallies = [m.filter.tally for m in memories if m.filter.tally is not None]
    assert ledger.tally == pytest.approx(sum(tallies))


@pytest.mark.parametrize(
    ("name", "warmup"), [("feddiv-no-pcs", 0), ("fedavg", 0), ("dividemix", 0), ("fedcorr", 1)]
)
def test_a_run_whose_training_explodes_everywhere_ends_and_says_so(name: str, warmup: int) -> None:
    settings = {"method__name": name, "warmup__iterations": warmup, "rounds": 3}
    with pytest.raises(Diverged, match=r"train\.lr"):
        play(**settings, train__lr=1e38, train__epochs=5)


class Dropping(torch.nn.Module):
    """A net that draws random numbers of its own."""

    def __init__(self, input_shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(int(np.prod(input_shape)), classes)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.fc(torch.nn.functional.dropout(inputs.flatten(1), 0.5, self.training))


def test_what_a_net_draws_comes_from_the_streams_too() -> None:
    runs = [play(model__name=f"{__name__}:Dropping").net for _ in range(2)]
    assert same(*runs)


def test_a_client_that_trains_nowhere_leaves_batch_norm_alone() -> None:
    played = play(rounds=3, warmup__iterations=0)
    workspace = played.federation.workspace
    alone = replace(workspace.draw, parts=(workspace.draw.parts[0][:1],))
    workspace.draw = alone
    sent = played.loop.method.assessment(played.loop.state)
    for kind in ("warmup", "train"):
        message = replace(sent, kind=kind)
        outcome = played.loop.method.visit(workspace.client(0), None, message, Streams(0))
        assert same(outcome.reply.weights["net"], played.net)
        assert outcome.reply.metrics["divergence"] == 0


def test_the_perfect_filter_needs_true_labels_before_anything_runs(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "mine.npz", x=rng.random((40, 3)), y=np.arange(40) % 2)
    settings = {
        "data.source": "npz",
        "data.path": str(tmp_path / "mine.npz"),
        "model.name": "mlp",
        "method.variant": "perfect-filter",
        "clients.count": 2,
        "rounds": 2,
    }
    with pytest.raises(UserError, match="scope=perfect needs true labels"):
        feddiv.run({}, settings, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_release_tells_of_labels_as_given_and_as_it_has_corrected_them(tmp_path: Path) -> None:
    settings = {**TINY, **NOISE, "method.variant": "release", "method.relabel.confidence": 0.2}
    settings["clients.fraction"] = 1.0
    run = feddiv.run({}, settings, out=tmp_path / "a", workers=2)
    arrays, told = run.assessment, run.summary["corrected_labels"]
    changed = arrays["corrected_label"] != arrays["given_label"]
    assert told["changed"] == changed.mean() > 0
    assert told["wrong"] == (arrays["corrected_label"] != arrays["true_label"]).mean()
    assert told["flagged"] == (arrays["corrected_label_quality"] < 0.5).mean()
    assert run.summary["flagged"] == (arrays["label_quality"] < 0.5).mean()
    assert run.summary["wrong"] == (arrays["given_label"] != arrays["true_label"]).mean()
    diaries = [json.loads(line) for line in (run.folder / "clients.jsonl").read_text().splitlines()]
    last = {line["client"]: line.get("corrected", 0) for line in diaries if line["kind"] == "train"}
    assert sum(last.values()) > 0  # what a visit began with: corrected at the visits before it
    settings["method.variant"] = "plus"
    plain = feddiv.run({}, settings, out=tmp_path / "b", workers=0)
    assert "corrected_labels" not in plain.summary
    assert not any(key.startswith("corrected") for key in plain.assessment)


def test_a_small_federation_is_not_choosy() -> None:
    sure, half, choosy = (
        play(method__filter__drop_below=below, method__filter__enough=enough)
        for below, enough in (("sure", 300), (0.5, 300), ("sure", 0))
    )
    assert same(sure.net, half.net)  # 120 images: no class can be spared
    assert sure.rounds[-1]["test_accuracy"] == half.rounds[-1]["test_accuracy"]
    assert not same(choosy.net, half.net)

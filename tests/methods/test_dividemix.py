"""DivideMix: who divides for whom, what is sent, and what becomes of clients without a division."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.methods.visits import checked, mixed_client

import feddiv
from feddiv.cli import main
from feddiv.core.randomness import Streams
from feddiv.learning.small_loss import trust
from feddiv.learning.train import TrainOptions
from feddiv.methods.contract import Budget, Exchange, Facts, Message, Moment, Reply
from feddiv.methods.dividemix import dividemix
from feddiv.methods.dividemix.dividemix import DivideMix, DivideMixOptions, divided
from feddiv.methods.dividemix.mixmatch import MixMatch

RNG = Streams(1).at(round=1)
FACTS = Facts(("a", "b"), (3,), dict.fromkeys(range(10), 4), True)


def made(rounds: int = 1000, **options: Any) -> DivideMix:
    return DivideMix(DivideMixOptions(**options), TrainOptions(), Budget(rounds, 0.3, 7))


def small(bench: Any, **settings: object) -> Any:
    training = {"train__epochs": 2, "train__batch": 4, "train__lr": 0.01}
    return bench.method("dividemix", **{**training, **settings})


def message(bench: Any, kind: str = "train", weight: float = 5.0, gain: float = 2.0) -> Message:
    """Net a is the identity, net b the same with another gain."""
    payload = {"unlabelled_weight": np.array(weight)} if kind == "train" else {}
    return Message(kind, {"a": bench.identity(), "b": bench.identity(gain)}, payload)


# The server


@pytest.mark.parametrize(("rounds", "warmup"), [(1000, 100), (200, 20), (6, 1), (2, 1), (1, 0)])
def test_a_tenth_of_the_rounds_is_warm_up_and_one_at_least_is_not(rounds: int, warmup: int) -> None:
    stages = [(stage.name, stage.turns, stage.rounds) for stage in made(rounds).stages()]
    assert stages == [("warmup", warmup, 1), ("train", rounds - warmup, 1)]


@pytest.mark.parametrize(("turn", "weight"), [(0, 0), (4, 6.25), (8, 12.5), (16, 25), (500, 25)])
def test_the_weight_of_unlabelled_samples_grows_over_sixteen_rounds(
    turn: int, weight: float
) -> None:
    method = made()
    state = method.begin(lambda name: {"w": torch.zeros(1)}, FACTS, RNG)
    exchange = method.plan(state, Moment("train", turn), RNG)
    assert exchange is not None
    assert exchange.message.kind == "train"
    assert float(exchange.message.payload["unlabelled_weight"]) == weight
    assert method.plan(state, Moment("train", turn, 1), RNG) is None


def test_both_models_go_to_a_fraction_of_the_clients() -> None:
    method = made()
    fresh = {"a": torch.tensor([1.0]), "b": torch.tensor([2.0])}
    state = method.begin(lambda name: {"w": fresh[name]}, FACTS, RNG)
    exchange = method.plan(state, Moment("warmup", 3), RNG)
    assert exchange is not None
    assert len(set(exchange.clients)) == 3
    assert exchange.message == Message("warmup", {"a": {"w": 1.0}, "b": {"w": 2.0}})


def test_either_model_is_averaged_and_half_a_reply_is_not_asked_for() -> None:
    method = made()
    state = method.begin(lambda name: {"w": torch.zeros(1)}, FACTS, RNG)

    def reply(client: int, samples: int, **values: float) -> Reply:
        return Reply(
            client, samples, {name: {"w": torch.tensor([v])} for name, v in values.items()}
        )

    replies = [reply(1, 1, a=4.0, b=8.0), reply(2, 3, a=8.0, b=0.0)]
    exchange = Exchange((0, 1, 2), Message("train"))
    after = method.merge(state, exchange, replies)
    assert {name: net["w"].item() for name, net in after.nets.items()} == {"a": 7.0, "b": 2.0}
    assert method.merge(state, exchange, []) is state
    assert {kind.models for kind in method.kinds(None).values()} == {("a", "b")}


# The division


def test_what_is_trusted_is_kept() -> None:
    division = divided(np.array([0.9, 0.4, 0.6, 0.5]), 0.5)
    assert division.labelled.tolist() == [0, 2]
    assert division.unlabelled.tolist() == [1, 3]
    assert division.trust.tolist() == pytest.approx([0.9, 0.4, 0.6, 0.5])


@pytest.mark.parametrize(
    ("trusts", "kept"),
    [
        ([0.1, 0.3, 0.2, 0.25], [1, 3]),
        ([0.1, 0.3, 0.2, 0.2, 0.0], [1, 2, 3]),  # half of five is three
        ([0.1, 0.9, 0.2, 0.25], [1, 3]),  # one label is no batch
        ([0.3, 0.1], [0, 1]),
        ([1.0], [0]),
    ],
)
def test_where_next_to_nothing_is_trusted_the_better_half_is_kept(
    trusts: list[float], kept: list[int]
) -> None:
    assert divided(np.array(trusts), 0.5).labelled.tolist() == kept


def test_everything_trusted_leaves_nothing_unlabelled() -> None:
    assert divided(np.ones(4), 0.5).unlabelled.tolist() == []


def test_labels_that_the_net_contradicts_are_not_trusted(bench: Any) -> None:
    client = mixed_client(bench, right=14, wrong=6, spread=0.5)
    found = trust(bench.logits(bench.identity(), client), client.samples.given.numpy())
    assert (found[:14] > 0.99).all()
    assert (found[14:] < 0.01).all()


@pytest.mark.parametrize("samples", [1, 2, 5])
def test_equal_losses_or_a_single_one_are_all_trusted(samples: int) -> None:
    labels = np.zeros(samples, np.int64)
    assert trust(np.ones((samples, 3)), labels).tolist() == [1.0] * samples


# The client


@pytest.fixture
def objectives(monkeypatch: pytest.MonkeyPatch) -> list[MixMatch]:
    """Every objective that a visit makes."""
    found: list[MixMatch] = []
    build: Callable[..., MixMatch] = dividemix.MixMatch

    def noted(*arguments: Any, **settings: Any) -> MixMatch:
        found.append(build(*arguments, **settings))
        return found[-1]

    monkeypatch.setattr(dividemix, "MixMatch", noted)
    return found


def test_each_net_trains_on_the_division_of_the_other(
    bench: Any, objectives: list[MixMatch]
) -> None:
    # Net b says nothing, so it trusts all labels; a contradicts the last six.
    method, client = small(bench, train__epochs=1), mixed_client(bench, 14, 6, spread=0.5)
    sent = message(bench, gain=0.0)
    by_a = trust(bench.logits(bench.identity(), client), client.samples.given.numpy())
    outcome = method.visit(client, None, sent, bench.rng)
    for_a, for_b = objectives
    assert for_a.division.labelled.tolist() == list(range(20))
    assert for_a.division.unlabelled.tolist() == []
    assert for_b.division.labelled.tolist() == list(range(14))
    assert for_b.division.unlabelled.tolist() == list(range(14, 20))
    # As net a was when it came, not as it is after its own epoch.
    assert for_b.division.trust.numpy() == pytest.approx(by_a, abs=1e-4)
    assert (for_a.unlabelled_weight, for_b.unlabelled_weight) == (5, 5)
    checked(method, outcome, sent, client)


def test_the_division_is_made_anew_in_every_epoch(bench: Any, objectives: list[MixMatch]) -> None:
    draws = np.random.default_rng(0)
    client = bench.client(draws.random((20, 3)), draws.integers(0, 3, 20))
    small(bench, train__epochs=3).visit(client, None, message(bench), bench.rng)
    assert len(objectives) == 6
    trusts = [objective.division.trust for objective in objectives]
    assert not torch.equal(trusts[0], trusts[2])
    numbers = {objective.partner.initial_seed() for objective in objectives}
    assert len(numbers) == 6, "every epoch and net has draws of its own"


@pytest.mark.parametrize("kind", ["warmup", "train"])
def test_only_weights_and_their_divergence_are_sent(bench: Any, kind: str) -> None:
    method, client = small(bench), mixed_client(bench)
    sent = message(bench, kind)
    outcome = method.visit(client, None, sent, bench.rng)
    checked(method, outcome, sent, client)
    assert outcome.reply.payload == {}
    assert outcome.reply.weights.keys() == {"a", "b"}
    assert outcome.memory is None
    moved = {
        name: sum(
            float((v - sent.weights[name][k]).double().square().sum()) for k, v in net.items()
        )
        for name, net in outcome.reply.weights.items()
    }
    assert min(moved.values()) > 0
    assert outcome.reply.metrics == {"divergence": pytest.approx(sum(moved.values()), rel=1e-6)}


def test_warm_up_learns_all_given_labels(bench: Any) -> None:
    small(bench).visit(mixed_client(bench), None, message(bench, "warmup"), bench.rng)
    assert bench.passes == {"learn": 2 * 2 * 20, "backward": 2 * 2 * 20}


def test_passes_of_a_divided_epoch(bench: Any, objectives: list[MixMatch]) -> None:
    method, client = small(bench, train__epochs=1), mixed_client(bench, 14, 6, spread=0.5)
    method.visit(client, None, message(bench), bench.rng)
    assert [len(objective.division.labelled) for objective in objectives] == [14, 14]
    # 14 labelled in batches of 4, 4, 4, 2, joined by 4, 2, 4, 2 unlabelled, all in two views.
    learnt, guessed = 2 * (14 + 12), 2 * 12
    assert bench.passes["learn"] == bench.passes["backward"] == 2 * learnt
    assert bench.passes["plain"] == 2 * (20 + learnt + guessed)
    assert bench.passes["raw"] == 0


@pytest.mark.parametrize("clean_above", [0.0, 0.9999999])
@pytest.mark.parametrize("samples", [1, 2, 3, 20])
def test_odd_clients_and_thresholds(bench: Any, clean_above: float, samples: int) -> None:
    method = small(bench, method__clean_above=clean_above)
    client = mixed_client(bench, samples - samples // 3, samples // 3, spread=0.5)
    sent = message(bench)
    outcome = method.visit(client, None, sent, bench.rng)
    checked(method, outcome, sent, client)
    assert (outcome.reply.metrics["divergence"] > 0) == (samples > 1)


def test_assessment_is_that_of_both_nets(bench: Any) -> None:
    # The second net contradicts the first, and is louder.
    client = mixed_client(bench, 14, 6, spread=0.5)
    opposite = bench.identity()
    opposite["fc.weight"] = -2 * opposite["fc.weight"]
    given = client.samples.given.numpy()
    logits = [bench.logits(weights, client) for weights in (bench.identity(), opposite)]
    sent = Message("assess", {"a": bench.identity(), "b": opposite})
    opinion = bench.method("dividemix").assess(client, None, sent)
    assert opinion.predicted.tolist() == (logits[0] + logits[1]).argmax(axis=1).tolist()
    assert (opinion.predicted != logits[0].argmax(axis=1)).all()
    mean = (trust(logits[0], given) + trust(logits[1], given)) / 2
    assert opinion.p_clean == pytest.approx(mean)


# Whole runs

TINY = {
    "method.name": "dividemix",
    "rounds": 6,
    "warmup.iterations": 1,
    "data.images": 120,
    "train.epochs": 2,
    "clients.count": 4,
    "against": [],
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> feddiv.Run:
    return feddiv.run("quickstart", TINY, out=tmp_path_factory.mktemp("two") / "run", workers=0)


@pytest.mark.slow
def test_a_run_ends(run: feddiv.Run) -> None:
    assert [line["stage"] for line in run.rounds] == ["warmup"] + ["train"] * 5
    assert not any(line["missing"] for line in run.rounds)
    assert np.isfinite(run.column("test_loss")).all()
    quality = run.assessment["label_quality"]
    assert len(quality) == 120
    assert ((quality >= 0) & (quality <= 1)).all()


@pytest.mark.slow
def test_workers_give_the_same_bits(run: feddiv.Run, tmp_path: Path) -> None:
    again = feddiv.run("quickstart", TINY, out=tmp_path / "run", workers=2)
    assert again.summary["model_hash"] == run.summary["model_hash"]


@pytest.mark.slow
def test_a_saved_pair_of_nets_predicts(
    run: feddiv.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    images = np.random.default_rng(3).integers(0, 256, (5, 8, 8), dtype=np.uint8)
    model = feddiv.load(run.folder)
    assert model.nets.keys() == {"a", "b"}
    plain = model._transform.plain(torch.from_numpy(images[..., None]))
    with torch.no_grad():
        expected = sum(net(plain).double() for net in model.nets.values()).softmax(dim=1).numpy()
    assert model.predict_proba(images) == pytest.approx(expected, abs=1e-5)
    np.save(tmp_path / "x.npy", images)
    with pytest.raises(SystemExit) as end:
        main(["predict", str(run.folder), "--data", str(tmp_path / "x.npy")])
    assert end.value.code == 0
    rows = capsys.readouterr().out.splitlines()[1:]
    names = [model.classes[number] for number in model.predict(images)]
    assert [name in row for name, row in zip(names, rows, strict=True)] == [True] * 5

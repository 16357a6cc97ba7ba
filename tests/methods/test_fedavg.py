"""FedAvg against steps and averages worked out by hand."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import feddiv
from feddiv.core.randomness import Streams
from feddiv.data import Dataset, Draw
from feddiv.federation.in_process import InProcess
from feddiv.federation.workspace import Workspace
from feddiv.learning.train import TrainOptions
from feddiv.methods.contract import Budget, Exchange, Facts, Message, Moment, Reply
from feddiv.methods.fedavg import FedAvg, FedAvgOptions, FedAvgWarmup
from feddiv.nets import ModelOptions

LR = 0.1
RNG = Streams(1).at(round=1)
ONE_STEP = TrainOptions(epochs=1, batch=12, lr=LR)  # every client's samples are one batch


@pytest.fixture(params=[False, True], ids=["plain", "mixup"])
def method(request: pytest.FixtureRequest) -> FedAvg:
    return FedAvg(FedAvgOptions(mixup=request.param), ONE_STEP, Budget(3, 1.0, 0))


def by_hand(
    federation: InProcess, theta: dict[str, Tensor], client: int, mixup: bool
) -> dict[str, Tensor]:
    """One step of SGD from theta, in which momentum has no part yet."""
    samples = federation.workspace.client(client).samples
    net = federation.workspace.load("by hand", theta)
    rng = RNG.at(client=client)
    order = torch.randperm(len(samples), generator=rng.torch("order"))
    inputs, labels = samples.plain(order), samples.given[order]
    if mixup:
        ratio = float(rng.numpy("mixup").beta(1, 1))
        partner = torch.randperm(len(samples), generator=rng.torch("mixup"))
        logits = net(ratio * inputs + (1 - ratio) * inputs[partner])
        own, others = F.cross_entropy(logits, labels), F.cross_entropy(logits, labels[partner])
        loss = ratio * own + (1 - ratio) * others
    else:
        loss = F.cross_entropy(net(inputs), labels)
    parameters = dict(net.named_parameters())
    gradients = torch.autograd.grad(loss, list(parameters.values()))
    return {k: theta[k] - LR * g for k, g in zip(parameters, gradients, strict=True)}


def test_a_round_is_the_weighted_average_of_what_its_clients_learn(
    method: FedAvg, small_data: Dataset, small_draw: Draw
) -> None:
    workspace = Workspace(method, small_data, small_draw, ModelOptions(name="mlp"))
    federation = InProcess(workspace)
    state = method.begin(lambda name: federation.make_model(name, RNG), federation.facts, RNG)
    exchange = method.plan(state, Moment("train", 0), RNG)
    assert exchange is not None
    assert sorted(exchange.clients) == [0, 1, 2]
    visits = federation.visits(exchange, RNG)
    after = method.merge(state, exchange, (visit.reply for visit in visits))
    learnt = [by_hand(federation, state.net, k, method.options.mixup) for k in range(3)]
    for key, value in after.net.items():
        # 2, 4 and 6 samples of 12
        expected = (2 * learnt[0][key] + 4 * learnt[1][key] + 6 * learnt[2][key]) / 12
        torch.testing.assert_close(value, expected, rtol=1e-5, atol=1e-7)
        assert not torch.equal(value, state.net[key])


def test_one_exchange_a_round_with_a_fraction_of_the_clients() -> None:
    method = FedAvg(FedAvgOptions(), ONE_STEP, Budget(3, 0.3, 7))
    facts = Facts(("a", "b"), (3,), dict.fromkeys(range(10), 4), True)
    state = method.begin(lambda name: {"w": torch.zeros(1)}, facts, RNG)
    assert [(s.name, s.turns, s.rounds) for s in method.stages()] == [("train", 3, 1)]
    rounds = [method.plan(state, Moment("train", t), RNG.at(round=t)) for t in range(10)]
    assert all(found is not None and len(set(found.clients)) == 3 for found in rounds)
    assert len({found.clients for found in rounds if found}) > 3
    assert method.plan(state, Moment("train", 0, 1), RNG) is None


def test_no_replies_leave_the_model_as_it_was() -> None:
    method = FedAvg(FedAvgOptions(), ONE_STEP, Budget(3, 0.3, 0))
    facts = Facts(("a", "b"), (3,), {0: 4}, True)
    state = method.begin(lambda name: {"w": torch.ones(1)}, facts, RNG)
    assert method.merge(state, Exchange((0,), Message("train")), []) is state


def test_only_weights_and_their_divergence_are_sent(bench: Any) -> None:
    method = bench.method("fedavg", train__epochs=1)
    outcome = method.visit(bench.sure([0, 1, 2], [0, 1, 1]), None, bench.message(), bench.rng)
    assert outcome.reply.payload == {}
    assert (
        outcome.reply.metrics.keys() == method.kinds(None)["train"].reply.keys() == {"divergence"}
    )
    assert outcome.reply.samples == 3
    assert outcome.memory is None


def test_it_has_no_opinion_of_labels(bench: Any) -> None:
    method = bench.method("fedavg")
    opinion = method.assess(bench.sure([0, 1, 2], [1, 1, 1]), None, bench.message("assess"))
    assert opinion.predicted.tolist() == [0, 1, 2]
    assert opinion.p_clean is None
    assert opinion.scores is None


def test_a_client_of_one_sample_returns_what_it_received(bench: Any) -> None:
    sent = bench.message()
    outcome = bench.method("fedavg").visit(bench.sure([0], [1]), None, sent, bench.rng)
    assert all(
        torch.equal(v, sent.weights["net"][k]) for k, v in outcome.reply.weights["net"].items()
    )
    assert outcome.reply.metrics["divergence"] == 0


@pytest.mark.slow
def test_warm_ends_its_warm_up_with_the_bits_of_feddivs(tmp_path: Path) -> None:
    tiny = {
        "rounds": 6,
        "warmup.iterations": 2,
        "data.images": 160,
        "clients.count": 4,
        "train.epochs": 1,
        "against": [],
    }
    runs = {
        name: feddiv.run(
            "quickstart", {**tiny, "method.name": name}, out=tmp_path / name, workers=0
        )
        for name in ("fedavg-warm", "feddiv")
    }
    warm, theirs = (
        [line["test_accuracy"] for line in run.rounds if line["stage"] == "warmup"]
        for run in runs.values()
    )
    assert warm == theirs
    assert len(warm) == 2
    assert [line["round"] for line in runs["fedavg-warm"].rounds] == [2, 4, 5, 6]
    moved = [
        [line["divergence"] for line in run.rounds if line["stage"] == "warmup"]
        for run in runs.values()
    ]
    assert moved[0] == moved[1], "not only the accuracy: every model on the way is the same"


def test_warm_hands_over_then_averages() -> None:
    options = FedAvgOptions(variant="warm", mixup=True, warmup=FedAvgWarmup(mode="hand_over"))
    method = FedAvg(options, ONE_STEP, Budget(10, 0.5, 2))
    assert [(s.name, s.turns, s.rounds) for s in method.stages()] == [
        ("warmup", 2, 2.0),
        ("train", 6, 1.0),
    ]
    assert method.hands_over
    assert not FedAvg(FedAvgOptions(), ONE_STEP, Budget(10, 0.5, 2)).hands_over
    facts = Facts(("a", "b"), (3,), {0: 1, 1: 3}, True)
    state = method.begin(lambda name: {"w": torch.zeros(1)}, facts, RNG)
    seen = []
    for place in range(2):
        exchange = method.plan(state, Moment("warmup", 0, place), RNG.at(exchange=place))
        assert exchange is not None
        (client,) = exchange.clients
        assert exchange.message.weights["net"]["w"].item() == place, "from the one before"
        seen.append(client)
        weights = {"net": {"w": torch.full((1,), float(place + 1))}}
        reply = Reply(client, facts.sizes[client], weights, metrics={"divergence": 0.0})
        state = method.merge(state, exchange, [reply])
    assert method.plan(state, Moment("warmup", 0, 2), RNG) is None
    assert sorted(seen) == [0, 1]
    mean = sum(facts.sizes[client] * (place + 1) for place, client in enumerate(seen)) / 4
    assert method.weights(state)["net"]["w"].item() == pytest.approx(mean)
    first = method.plan(state, Moment("train", 0), RNG)
    assert first is not None
    assert first.message.weights["net"]["w"].item() == pytest.approx(mean)
    reply = Reply(0, 1, {"net": {"w": torch.full((1,), 7.0)}}, metrics={"divergence": 0.0})
    after = method.merge(state, first, [reply])
    assert method.weights(after)["net"]["w"].item() == 7.0

"""RoFL on clients whose features and logits are their inputs, and in short runs."""

from math import exp, log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.methods.visits import checked, unchanged
from torch import Tensor, nn

import feddiv
from feddiv.core.errors import UserError
from feddiv.core.randomness import Streams
from feddiv.core.trees import pack, unpack
from feddiv.learning.train import Batch, TrainOptions
from feddiv.methods.contract import Budget, Facts, Message, Moment, Reply
from feddiv.methods.rofl.rofl import CentroidObjective, RoFL, RoFLOptions, RoFLState, small_losses

RNG = Streams(1).at(round=1)
WIDTH = 128  # of the features of the mlp, which are zero from the fourth on
SHORT = {
    "method.name": "rofl",
    "rounds": 3,
    "data.images": 120,
    "train.epochs": 2,
    "clients.count": 4,
    "against": [],
}


def rofl(rounds: int = 100, **options: Any) -> RoFL:
    return RoFL(RoFLOptions(**options), TrainOptions(epochs=2, batch=4), Budget(rounds, 0.5, 0))


def told(method: RoFL, turn: int) -> tuple[float, float, bool]:
    schedule = method.schedule(turn)
    rate, weight = float(schedule["forget_rate"]), float(schedule["centroid_weight"])
    return round(rate, 9), round(weight, 9), bool(schedule["pseudo_labels"])


def axes(*lengths: float) -> np.ndarray:
    """Centroids along the first axes of the feature space, one for each class."""
    return np.eye(len(lengths), WIDTH) * np.array(lengths)[:, None]


def message(bench: Any, centroids: np.ndarray | None = None, **changed: float) -> Message:
    numbers = {"forget_rate": 0.0, "centroid_weight": 0.0, "pseudo_labels": 0.0, **changed}
    more = {} if centroids is None else {"centroids": centroids}
    return bench.message(**numbers, **more)


def test_forget_rate_centroid_weight_and_pseudo_labels_by_round() -> None:
    method = rofl(rounds=200, forget_rate=0.3)
    assert told(method, 0) == (0.0, 0.0, False)
    assert told(method, 5) == (0.15, 0.25, False)  # 5 of 10 rounds, 5 of 20
    assert told(method, 10) == (0.3, 0.5, False)
    assert told(method, 19) == (0.3, 0.95, False)
    assert told(method, 20) == (0.3, 1.0, True)
    assert told(method, 199) == (0.3, 1.0, True)


def test_a_share_of_few_rounds_is_rounded_up() -> None:
    assert [told(rofl(rounds=25), turn)[2] for turn in range(4)] == [False, False, False, True]
    assert told(rofl(rounds=70), 7)[2]  # 0.1 * 70 is a little more than 7 in floats


def test_nothing_has_to_wait_or_rise() -> None:
    assert told(rofl(forget_ramp=0, trusted_after=0.0), 0) == (0.2, 1.0, True)


def test_the_plan_is_one_exchange_with_centroids_once_there_are_any() -> None:
    method = rofl()
    facts = Facts(("a", "b"), (3,), dict.fromkeys(range(10), 4), True)
    state = method.begin(lambda name: {"w": torch.zeros(1)}, facts, RNG)
    first = method.plan(state, Moment("train", 0), RNG)
    assert first is not None
    assert len(set(first.clients)) == 5
    assert "centroids" not in first.message.payload
    state = RoFLState(state.net, axes(1, 1), state.sizes)
    later = method.plan(state, Moment("train", 0), RNG)
    assert later is not None
    assert later.clients == first.clients
    assert np.array_equal(later.message.payload["centroids"], axes(1, 1))
    assert method.plan(state, Moment("train", 0, 1), RNG) is None


@pytest.mark.parametrize(
    ("rate", "kept"),
    [(0.0, [1, 2, 0, 4, 3]), (0.2, [1, 2, 0, 4]), (0.5, [1, 2]), (0.9, [1]), (1.0, [1])],
)
def test_small_losses(rate: float, kept: list[int]) -> None:
    assert small_losses(torch.tensor([3.0, 1.0, 2.0, 5.0, 4.0]), rate).tolist() == kept


def test_one_sample_is_always_kept() -> None:
    assert small_losses(torch.tensor([7.0]), 0.2).tolist() == [0]
    assert small_losses(torch.full((4,), 2.0), 0.5).tolist() == [0, 1]  # the first of equals


def objective(centroids: np.ndarray, stand_ins: list[int], **changed: float) -> CentroidObjective:
    numbers = {"forget_rate": 0.0, "centroid_weight": 0.0, "entropy_weight": 0.0, **changed}
    start = torch.tensor(centroids, dtype=torch.float32)
    return CentroidObjective(start, torch.tensor(stand_ins), **numbers)


def batch(client: Any) -> Batch:
    rows = torch.arange(len(client))
    return Batch(client.samples.inputs, client.samples.given, rows)


def loaded(bench: Any) -> nn.Module:
    bench.net.load_state_dict(bench.identity())
    return bench.net.train()


def test_the_loss_of_a_confident_batch(bench: Any) -> None:
    client = bench.client([[2, 0, 0], [0, 1, 0]], [0, 1])
    terms = objective(axes(1, 1, 1), [2, 2], centroid_weight=3.0, entropy_weight=0.8)
    # Softmax of (2, 0, 0) and of (1, 0, 0): the sure class, and each of the others.
    sure = [exp(2) / (exp(2) + 2), exp(1) / (exp(1) + 2)]
    rest = [1 / (exp(2) + 2), 1 / (exp(1) + 2)]
    ce = -(log(sure[0]) + log(sure[1])) / 2
    entropy = -sum(p * log(p) + 2 * q * log(q) for p, q in zip(sure, rest, strict=True)) / 2
    pull = (2 - 1) ** 2 / (2 * WIDTH)  # the second sample lies on its centroid
    loss = terms(loaded(bench), batch(client))
    assert loss.item() == pytest.approx(ce + 3 * pull + 0.8 * entropy, abs=1e-6)
    assert (terms.trained, int(terms.confident)) == (2, 2)
    # Both batch means have their centroid's direction: s = 1.
    assert terms.centroids[:3, :3].tolist() == [[2, 0, 0], [0, 1, 0], [0, 0, 1]]


def test_a_doubted_label_gives_way_to_its_stand_in(bench: Any) -> None:
    client = bench.client([[2, 0, 0], [0, 2, 0]], [1, 1])  # the centroids say 0 and 1
    right, wrong = log(exp(2) + 2) - 2, log(exp(2) + 2)
    doubting = objective(axes(1, 1, 1), [0, 0], centroid_weight=1.0)
    pull = 1 / (2 * WIDTH)  # of the second sample alone
    loss = doubting(loaded(bench), batch(client))
    assert loss.item() == pytest.approx((right + right) / 2 + pull, abs=1e-6)
    assert int(doubting.confident) == 1
    # Before pseudo-labels count, the given label stands in for itself.
    believing = objective(axes(1, 1, 1), [1, 1])
    loss = believing(loaded(bench), batch(client))
    assert loss.item() == pytest.approx((wrong + right) / 2, abs=1e-6)


def test_only_small_losses_train_and_move_centroids(bench: Any) -> None:
    client = bench.client([[2, 0, 0], [0, 2, 0]], [0, 2])
    half = objective(axes(1, 1, 1), [0, 2], forget_rate=0.5)
    loss = half(loaded(bench), batch(client))
    assert loss.item() == pytest.approx(log(exp(2) + 2) - 2, abs=1e-6)
    assert half.trained == 1
    assert half.centroids[:3, :3].tolist() == [[2, 0, 0], [0, 1, 0], [0, 0, 1]]


def test_the_centroid_term_trains_the_layers_under_the_features(bench: Any) -> None:
    client = bench.client([[2, 0, 0], [0, 1, 0]], [0, 1])

    def gradient(weight: float) -> Tensor:
        net = loaded(bench)
        net.zero_grad()
        objective(axes(1, 1, 1), [0, 1], centroid_weight=weight)(net, batch(client)).backward()
        (last,) = [p.grad for key, p in net.named_parameters() if key == "hidden.3.weight"]
        return last.clone()

    pull = gradient(1.0) - gradient(0.0)
    # 2 (h - A) / (|J| d) = 2 / 256 of the first sample's first feature, times its input 2.
    assert pull[0, 0].item() == pytest.approx(4 / (2 * WIDTH), rel=1e-4)
    pull[0, 0] = 0
    assert pull.abs().max() < 1e-7


def test_the_first_visit_starts_from_the_means_of_its_labels(bench: Any) -> None:
    client = bench.client([[4, 0, 0]], [1])  # one sample: nothing trains
    sent = message(bench)
    outcome = rofl().visit(client, None, sent, bench.rng)
    assert np.array_equal(
        outcome.reply.payload["centroids"], [[0] * WIDTH, axes(4)[0], [0] * WIDTH]
    )
    assert unchanged(outcome, sent)
    assert outcome.reply.metrics["divergence"] == 0
    assert outcome.diary == {"trained": 0, "confident": 0}


def test_a_client_that_gets_a_spoilt_model_is_heard(bench: Any) -> None:
    client = bench.client([[4, 0, 0]], [1])
    outcome = rofl().visit(client, None, message(bench, axes(1, -1e9, 3)), bench.rng)
    assert np.array_equal(outcome.reply.payload["centroids"], axes(1, -1e6, 3))


def test_later_visits_start_from_the_servers_centroids(bench: Any) -> None:
    client = bench.client([[4, 0, 0]], [1])
    outcome = rofl().visit(client, None, message(bench, axes(1, 2, 3)), bench.rng)
    assert np.array_equal(outcome.reply.payload["centroids"], axes(1, 2, 3))
    # Nobody had class 1 so far: its row comes from here, the others stay.
    outcome = rofl().visit(client, None, message(bench, axes(1, 0, 0)), bench.rng)
    expected = [axes(1)[0], axes(4)[0], [0] * WIDTH]
    assert np.array_equal(outcome.reply.payload["centroids"], expected)


def test_pseudo_labels_are_those_of_the_received_model_and_cost_a_pass(bench: Any) -> None:
    client = bench.sure([0, 1, 2, 0], [0, 1, 2, 1])
    rofl().visit(client, None, message(bench, axes(1, 1, 1)), bench.rng)
    assert bench.passes["plain"] == 0
    sent = message(bench, axes(1, 1, 1), pseudo_labels=1.0)
    trusting = rofl().visit(client, None, sent, bench.rng)
    assert bench.passes["plain"] == 4
    learnt = bench.logits(trusting.reply.weights["net"], client)
    assert learnt.argmax(axis=1).tolist() == [0, 1, 2, 0]
    assert learnt[3, 0] - learnt[3, 1] > 4  # surer than before of what was never its label


@pytest.mark.parametrize("rate", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("start", [None, axes(0, 0, 0), axes(1, 0, 1)])
@pytest.mark.parametrize(
    ("inputs", "given"),
    [
        ([[1, 0, 0]], [2]),
        ([[1, 0, 0], [0, 2, 0]], [0, 1]),
        ([[1, 0, 0], [0, 2, 0]], [1, 1]),
        ([[1, 2, 0]] * 5, [2] * 5),
        ([[0, 0, 0]] * 6, [0, 1, 2] * 2),  # no features: all centroids are zero
    ],
)
def test_odd_clients(
    bench: Any, inputs: list, given: list[int], start: np.ndarray | None, rate: float
) -> None:
    client, method = bench.client(inputs, given), rofl()
    sent = message(bench, start, forget_rate=rate, centroid_weight=1.0, pseudo_labels=1.0)
    outcome = method.visit(client, None, sent, bench.rng)
    checked(method, outcome, sent, client)  # finite, and nothing that was not declared
    assert outcome.reply.payload["centroids"].shape == (3, WIDTH)
    assert outcome.reply.payload["centroids"].dtype == np.float64
    assert unchanged(outcome, sent) == (len(client) == 1)


def test_the_server_merges_models_by_size_and_centroids_by_cosine() -> None:
    method = rofl()
    state = RoFLState({"w": torch.zeros(1)}, np.array([[1.0, 0.0]]), {0: 1, 1: 3})
    replies = [
        Reply(0, 1, {"net": {"w": torch.tensor([4.0])}}, {"centroids": np.array([[3.0, 0.0]])}),
        Reply(1, 3, {"net": {"w": torch.tensor([8.0])}}, {"centroids": np.array([[0.0, 9.0]])}),
    ]
    exchange = method.plan(state, Moment("train", 0), RNG)
    after = method.merge(state, exchange, replies)
    assert after.net["w"].item() == 7  # (1 * 4 + 3 * 8) / 4
    assert after.centroids.tolist() == [[3, 0]]  # the second is at a right angle
    assert state.centroids.tolist() == [[1, 0]]
    nobody = method.merge(state, exchange, [])
    assert nobody.net is state.net
    assert nobody.centroids.tolist() == [[1, 0]]


def test_its_state_can_be_written_and_read() -> None:
    for centroids in (None, axes(1, 2)):
        state = RoFLState({"w": torch.ones(2)}, centroids, {0: 4})
        again = unpack(RoFL.State, pack(state))
        assert torch.equal(again.net["w"], state.net["w"])
        assert np.array_equal(again.centroids, centroids)
        assert again.sizes == {0: 4}


class Headless(nn.Module):
    """A net that does not end in a Linear over the classes."""

    def __init__(self, input_shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.scores = nn.Conv2d(input_shape[0], classes, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.scores(inputs).mean(dim=(2, 3))


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_a_net_without_features_is_refused_in_one_line(tmp_path: Path, workers: int) -> None:
    settings = {**SHORT, "model.name": f"{__name__}:Headless"}
    with pytest.raises(UserError, match="no features and head") as refusal:
        feddiv.run("quickstart", settings, out=tmp_path / "run", workers=workers)
    assert "\n" not in str(refusal.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_run_gives_the_same_bits_with_workers(tmp_path: Path) -> None:
    runs = [
        feddiv.run("quickstart", SHORT, out=tmp_path / str(n), workers=n).summary for n in (0, 2)
    ]
    assert runs[0]["rounds"] == 3
    assert runs[0]["model_hash"] == runs[1]["model_hash"]

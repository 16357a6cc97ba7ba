"""FedRN: neighbours, their reliability, and what a visit does with them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import feddiv
from feddiv.core.randomness import Streams
from feddiv.federation.reply_check import Refused, check_reply
from feddiv.learning.train import TrainOptions
from feddiv.methods.contract import Budget, Facts, Message, Moment, Reply
from feddiv.methods.fedrn import (
    LARGEST_LOGIT,
    FedRN,
    FedRNMemory,
    FedRNOptions,
    body_frozen,
    cosine,
    kept,
    only,
    reliability,
)
from feddiv.nets import ModelOptions
from feddiv.nets.build import build_net

EAST, NORTH = np.array([2.0, 0.0]), np.array([0.0, 1.0])
PROBES = {0: EAST, 1: EAST * 3, 2: NORTH, 3: -EAST}
EXPERTISE = {0: 0.5, 1: 0.2, 2: 1.0, 3: 0.6}


def test_reliability_by_hand() -> None:
    scores = reliability(0, EXPERTISE, PROBES, 0.6)
    # Cosines to client 0 are 1, 1, 0, -1: scaled 1, 1, 1/2, 0. Expertise scaled: 3/8, 0, 1, 1/2.
    assert scores[0] == pytest.approx(0.6 * 3 / 8 + 0.4)
    assert scores[1] == pytest.approx(0.6 * 0 + 0.4)
    assert scores[2] == pytest.approx(0.6 * 1 + 0.4 * 0.5)
    assert scores[3] == pytest.approx(0.6 * 0.5)


def test_a_client_that_was_never_seen_has_no_neighbours() -> None:
    assert reliability(9, EXPERTISE, PROBES, 0.6) == {}


def test_where_all_are_equal_they_count_a_half() -> None:
    scores = reliability(0, {0: 0.3, 1: 0.3}, {0: EAST, 1: EAST}, 0.6)
    assert scores[1] == pytest.approx(0.5)
    assert scores[0] == pytest.approx(0.3 + 0.4)


def test_cosine() -> None:
    assert cosine(EAST, NORTH) == 0
    assert cosine(EAST, -EAST) == pytest.approx(-1)
    assert cosine(EAST, np.zeros(2)) == 0


@pytest.mark.parametrize("lie", [1e308, -1e308, 1e7])
def test_a_probe_that_no_model_gives_is_refused(lie: float) -> None:
    method = FedRN(FedRNOptions(), TrainOptions(), Budget(4, 0.5, 0))
    kind = method.kinds(Facts(("a", "b"), (3,), {0: 4}, iid=True))["train"]
    payload = {"expertise": np.array(1.0), "probe": np.array([lie, 0.0])}
    reply = Reply(0, 4, {"net": {}}, payload, {"divergence": 0.0})
    with pytest.raises(Refused, match="probe is outside"):
        check_reply(reply, kind, Message("train", {"net": {}}), 4)
    largest = np.full(2, LARGEST_LOGIT)
    assert cosine(largest, largest) == pytest.approx(1)  # and what is taken does not overflow


def test_labels_that_nobody_trusts_are_all_kept() -> None:
    assert kept(np.array([0.4, 0.6, 0.5])).tolist() == [False, True, False]
    assert kept(np.array([0.4, 0.1])).tolist() == [True, True]


def test_only_the_head_learns_while_the_body_is_frozen() -> None:
    net = build_net(ModelOptions(name="mlp"), (3,), 3)
    with body_frozen(net):
        learning = {name for name, p in net.named_parameters() if p.requires_grad}
        assert learning == {"fc.weight", "fc.bias"}
    assert all(parameter.requires_grad for parameter in net.parameters())


def test_only() -> None:
    rows, labels = only(np.array([True, False, True]), torch.tensor([4, 5, 6]))(0)
    assert (rows.tolist(), labels.tolist()) == ([0, 2], [4, 6])


def planned(method: FedRN, stage: str, seen: tuple[int, ...]) -> Any:
    facts = Facts(("a", "b"), (3,), {0: 5, 1: 5, 2: 5, 3: 5}, True)
    state = method.begin(lambda name: {"w": torch.zeros(1)}, facts, Streams(0))
    for client in seen:
        name = method.model_store.put(f"server-{client}", {"w": torch.full((1,), float(client))})
        state.models[client] = name
        state.expertise[client], state.probes[client] = EXPERTISE[client], PROBES[client]
    return method.plan(state, Moment(stage, 0), Streams(0).at(round=1))


def test_the_most_reliable_neighbours_are_sent(bench: Any) -> None:
    method = bench.method("fedrn", clients__fraction=1.0, rounds=20)
    exchange = planned(method, "train", (0, 1, 2, 3))
    sent = exchange.to(0)
    assert list(sent.weights) == ["net", "neighbour 0", "neighbour 1"]
    assert [float(sent.weights[f"neighbour {i}"]["w"]) for i in (0, 1)] == [2, 1]
    assert sent.payload["reliability"] == pytest.approx([0.625, 0.8, 0.4])
    # Only those that were seen can be anybody's neighbour; the unseen has none itself.
    exchange = planned(method, "train", (0, 2))
    assert [float(v["w"]) for v in exchange.to(0).weights.values()] == [0, 2]
    assert list(exchange.to(3).weights) == ["net"]
    assert exchange.to(3).payload["reliability"].tolist() == [1.0]
    assert planned(method, "warmup", ()).personal == {}


def test_the_budget(bench: Any) -> None:
    stages = {s.name: s.turns for s in bench.method("fedrn", rounds=25).stages()}
    assert stages == {"warmup": 3, "train": 22}
    assert bench.method("fedrn", rounds=1).stages()[-1].turns == 1


def test_a_visit_trains_on_labels_that_are_trusted(bench: Any) -> None:
    client = bench.sure(says=[0, 1, 2, 0, 1, 2], given=[0, 1, 2, 0, 1, 0])
    method = bench.method("fedrn", rounds=20, train__epochs=1, train__batch=2)
    identity = bench.identity()
    nets = {"net": identity, "neighbour 0": identity}
    message = Message("train", nets, {"reliability": np.array([1.0, 0.5])})
    visit = method.visit(client, None, message, bench.rng)
    assert visit.diary["noisy"] == 1
    assert visit.reply.weights.keys() == {"net"}
    assert set(visit.reply.payload) == {"expertise", "probe"}
    assert 0 <= visit.reply.payload["expertise"] <= 1
    again = method.visit(client, None, message, bench.rng)
    assert all(torch.equal(value, again.memory.net[key]) for key, value in visit.memory.net.items())


@pytest.mark.parametrize("gain", [1e9, 1e30])
def test_a_client_that_gets_a_spoilt_model_is_heard(bench: Any, gain: float) -> None:
    method = bench.method("fedrn", rounds=20, train__epochs=1, train__lr=1e-20)
    message = Message("train", {"net": bench.identity(gain)}, {"reliability": np.array([1.0])})
    visit = method.visit(bench.sure([0, 1, 2], [0, 1, 2]), None, message, bench.rng)
    assert abs(visit.reply.payload["probe"]).max() == LARGEST_LOGIT


def confusing(bench: Any) -> Any:
    """Weights that take class 2 for class 0: of the labels below they doubt the third."""
    weights = bench.identity()
    weights["fc.weight"][0, 2], weights["fc.weight"][2] = 1.0, 0.0
    return weights


def doubted(p_clean: np.ndarray) -> list[int]:
    return np.flatnonzero(p_clean < 0.5).tolist()


def test_its_opinion_is_what_it_last_judged_with_its_neighbours(bench: Any) -> None:
    client = bench.sure(says=[0, 1, 2, 0, 1, 2], given=[0, 1, 2, 0, 1, 0])
    method = bench.method("fedrn", rounds=20, train__epochs=1, train__batch=2, train__lr=1e-6)
    nets = {"net": bench.identity(), "neighbour 0": confusing(bench)}
    final = Message("assess", {"net": bench.identity()})

    def opinion(reliability: list[float]) -> Any:
        message = Message("train", nets, {"reliability": np.array(reliability)})
        memory = method.visit(client, None, message, bench.rng).memory
        return method.assess(client, memory, final).p_clean

    assert doubted(opinion([1.0, 0.0])) == [5]
    assert doubted(opinion([0.0, 1.0])) == [2]
    assert opinion([3.0, 1.0]) == pytest.approx([1, 1, 0.75, 1, 1, 0.25], abs=0.01)


def test_before_it_has_judged_its_own_model_decides_alone(bench: Any) -> None:
    client = bench.sure(says=[0, 1, 2, 0, 1, 2], given=[0, 1, 2, 0, 1, 0])
    method = bench.method("fedrn", rounds=20)
    final = Message("assess", {"net": bench.identity()})
    warmed = method.assess(client, FedRNMemory(confusing(bench)), final)
    unseen = method.assess(client, None, final)
    assert (doubted(warmed.p_clean), doubted(unseen.p_clean)) == ([2], [5])
    assert warmed.predicted.tolist() == unseen.predicted.tolist() == [0, 1, 2, 0, 1, 2]


@pytest.mark.slow
def test_a_run_keeps_one_model_per_client_in_files(tmp_path: Path) -> None:
    settings = {"method.name": "fedrn", "rounds": 6, "data.images": 120, "train.epochs": 1}
    settings |= {"clients.count": 4, "checkpoint.seconds": 0.0, "against": []}
    hashes = set()
    for workers in (0, 2):
        out = tmp_path / str(workers)
        run = feddiv.run("quickstart", settings, out=out, workers=workers)
        hashes.add(run.summary["model_hash"])
        files = [file.name for file in (out / "checkpoint" / "nets").iterdir()]
        of_server = {name[:13] for name in files if name.startswith("server-")}
        assert of_server == {f"server-{client:06d}" for client in range(4)}
        assert len(files) <= 2 * (4 + 2)  # and what the checkpoint before refers to
    assert len(hashes) == 1

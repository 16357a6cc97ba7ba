"""FedDiv's server: how it spends its rounds, whom it asks for what, and what it makes of it."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from feddiv.core.randomness import Streams
from feddiv.methods.contract import Exchange, Facts, Message, Moment, Reply

ONE = np.array([0.0, 1.0, 0.1, 0.2, 0.5, 0.5])  # means, variances, weights
TWO = np.array([0.4, 0.8, 0.3, 0.6, 0.25, 0.75])


def begun(method: Any, clients: int = 10, iid: bool = True) -> Any:
    """The first state, with a net of two numbers."""
    facts = Facts(("a", "b", "c"), (3,), {k: 5 + k for k in range(clients)}, iid)
    return method.begin(lambda name: {"w": torch.zeros(2)}, facts, Streams(0))


def exchanges(method: Any, state: Any, stage: str, turn: int) -> Iterator[Exchange]:
    """The exchanges of one turn, whatever their replies."""
    rng = Streams(0).at(round=turn + 1)
    for number in range(100):
        exchange = method.plan(state, Moment(stage, turn, number), rng.at(exchange=number))
        if exchange is None:
            return
        yield exchange


def kinds(method: Any, state: Any, stage: str, turn: int) -> list[str]:
    return [exchange.message.kind for exchange in exchanges(method, state, stage, turn)]


def told(kind: str, method: Any, state: Any) -> Message:
    """A message of this kind in the first turn of its stage."""
    stage = "warmup" if kind == "warmup" else "train"
    found = {e.message.kind: e.message for e in exchanges(method, state, stage, 0)}
    return found[kind]


def reply(client: int, samples: int, net: tuple[float, float] | None = None, **payload: Any) -> Any:
    weights = None if net is None else {"net": {"w": torch.tensor(net)}}
    return Reply(client, samples, weights, payload)


def merged(method: Any, state: Any, *replies: Reply, kind: str = "train") -> Any:
    clients = tuple(r.client for r in replies)
    return method.merge(state, Exchange(clients, Message(kind)), list(replies))


def bins(**counts: int) -> np.ndarray:
    histogram = np.zeros(64)
    for name, count in counts.items():
        histogram[int(name.removeprefix("bin"))] = count
    return histogram


# Rounds


@pytest.mark.parametrize(
    ("mode", "fraction", "stages"),
    [
        ("hand_over", 0.5, [("warmup", 3, 2), ("train", 14, 1)]),
        ("average", 0.5, [("warmup", 6, 1), ("train", 14, 1)]),
        # 3 / 0.4 = 7.5: the half round that is left over belongs to nobody.
        ("hand_over", 0.4, [("warmup", 3, 2.5), ("train", 12, 1)]),
        ("average", 0.4, [("warmup", 8, 1), ("train", 12, 1)]),
    ],
)
def test_stages(bench: Any, mode: str, fraction: float, stages: list) -> None:
    settings = {"rounds": 20, "clients__fraction": fraction, "warmup__iterations": 3}
    method = bench.method(method__warmup__mode=mode, **settings)
    assert [(s.name, s.turns, pytest.approx(s.rounds)) for s in method.stages()] == stages


def test_hand_over_visits_everybody_once_an_iteration_in_a_random_order(bench: Any) -> None:
    method = bench.method(warmup__iterations=3, rounds=20)
    state = begun(method)
    orders = []
    for turn in range(3):
        chain = list(exchanges(method, state, "warmup", turn))
        assert all(len(exchange.clients) == 1 for exchange in chain)
        assert {exchange.message.kind for exchange in chain} == {"warmup"}
        orders.append([exchange.clients[0] for exchange in chain])
    assert all(sorted(order) == list(range(10)) for order in orders)
    assert len({tuple(order) for order in orders}) == 3
    assert orders[0] != sorted(orders[0])


def test_hand_over_hands_each_clients_weights_to_the_next(bench: Any) -> None:
    method = bench.method(warmup__iterations=1, rounds=20)
    state, rng = begun(method, clients=3), Streams(0).at(round=1)
    received = []
    for number in range(3):
        exchange = method.plan(state, Moment("warmup", 0, number), rng.at(exchange=number))
        received.append(exchange.message.weights["net"]["w"].tolist())
        state = merged(method, state, reply(exchange.clients[0], 5, (number + 1.0, 0.5)))
    assert received == [[0, 0], [1, 0.5], [2, 0.5]]
    assert state.net["w"].tolist() == [3, 0.5]


def test_what_a_hand_over_ends_with(bench: Any) -> None:
    # Clients 0 and 1 hold 5 and 6 samples; two iterations, of which the second counts.
    chain = [(0, 5, 9.0), (1, 6, 8.0), (1, 6, 1.0), (0, 5, 2.0)]
    ends = {}
    for result in ("last", "average"):
        method = bench.method(method__warmup__result=result)
        state = begun(method, clients=2)
        for client, samples, value in chain:
            state = merged(method, state, reply(client, samples, (value, 0.0)), kind="warmup")
            assert state.net["w"][0] == value, "the next client goes on from the last model"
        for weights in (method.weights(state)["net"], told("train", method, state).weights["net"]):
            ends[result] = weights["w"][0].item()
        state = merged(method, state, reply(0, 5, (5.0, 0.0)), kind="train")
        assert method.weights(state)["net"]["w"][0] == 5.0, "filtered rounds know no trail"
    # (6 * 1 + 5 * 2) / 11
    assert ends == {"last": 2.0, "average": pytest.approx(16 / 11)}


def test_averaged_warm_up_is_rounds_of_a_fraction(bench: Any) -> None:
    settings = {"clients__fraction": 0.3, "warmup__iterations": 1, "rounds": 20}
    method = bench.method(method__warmup__mode="average", **settings)
    rounds = [list(exchanges(method, begun(method), "warmup", turn)) for turn in range(4)]
    assert [len(exchange) for exchange in rounds] == [1] * 4
    assert all(len(set(exchange[0].clients)) == 3 for exchange in rounds)
    assert len({exchange[0].clients for exchange in rounds}) > 1


@pytest.mark.parametrize(
    ("settings", "openings"),
    [
        ({"method__variant": "plus"}, ["bias", "filter"]),
        ({"method__filter__debias": "local"}, ["filter"]),
        ({"method__variant": "paper"}, ["filter"]),
        ({"method__variant": "release"}, ["filter"]),
        ({"method__variant": "local-filter"}, ["filter"]),
        ({"method__variant": "perfect-filter"}, []),
    ],
)
def test_openings_with_everybody_before_the_first_filtered_round_only(
    bench: Any, settings: dict, openings: list[str]
) -> None:
    method = bench.method(**settings)
    state = begun(method)
    first = list(exchanges(method, state, "train", 0))
    assert [exchange.message.kind for exchange in first] == [*openings, "train"]
    assert all(exchange.clients == tuple(range(10)) for exchange in first[:-1])
    for turn in range(1, 4):
        assert kinds(method, state, "train", turn) == ["train"]


@pytest.mark.parametrize(("fraction", "count"), [(0.3, 3), (0.55, 5), (0.01, 1), (1.0, 10)])
def test_clients_of_a_round(bench: Any, fraction: float, count: int) -> None:
    method = bench.method(clients__fraction=fraction)
    state = begun(method)
    rounds = [list(exchanges(method, state, "train", turn))[-1].clients for turn in range(20)]
    assert all(len(set(chosen)) == len(chosen) == count for chosen in rounds)
    again = [list(exchanges(method, state, "train", turn))[-1].clients for turn in range(20)]
    assert rounds == again, "a function of the state and the moment"
    if fraction == 0.3:
        assert len(set(rounds)) > 10
        assert {client for chosen in rounds for client in chosen} == set(range(10))


# Messages


@pytest.mark.parametrize(
    ("rule", "iid", "in_warmup", "expected"),
    [
        ("always", True, True, (1, 1)),
        ("always", False, True, (1, 1)),
        ("always", True, False, (0, 1)),
        ("non_iid", True, True, (0, 0)),
        ("non_iid", False, True, (1, 1)),
        ("non_iid", False, False, (0, 1)),
        ("never", True, True, (0, 0)),
        ("never", False, True, (0, 0)),
    ],
)
def test_eta_in_warm_up_and_after(
    bench: Any, rule: str, iid: bool, in_warmup: bool, expected: tuple[int, int]
) -> None:
    settings = {"method__regulariser": rule, "method__warmup__regulariser": in_warmup}
    method = bench.method(warmup__iterations=1, rounds=20, **settings)
    state = begun(method, iid=iid)
    etas = tuple(float(told(kind, method, state).payload["eta"]) for kind in ("warmup", "train"))
    assert etas == expected


def test_what_clients_receive(bench: Any) -> None:
    plus, paper = bench.method(), bench.method(method__variant="paper")
    everything = {"eta", "bias", "pardons", "must_train", "by_trust"}
    assert told("train", plus, begun(plus)).payload.keys() == everything
    split = replace(begun(plus), iid=False)  # noisy clients may be the only ones to know a class
    assert told("train", plus, split).payload.keys() == everything - {"by_trust"}
    assert told("filter", plus, begun(plus)).payload.keys() == {"eta", "bias"}
    assert told("train", paper, begun(paper)).payload.keys() == {"eta"}
    state = merged(paper, begun(paper), reply(0, 4, mixture=ONE), kind="filter")
    message = told("train", paper, state)
    assert message.payload.keys() == {"eta", "mixture"}
    assert message.payload["mixture"] == pytest.approx(ONE)


def test_the_bias_that_was_gathered_is_sent(bench: Any) -> None:
    method = bench.method()
    replies = (
        reply(0, 1, softmax=np.array([0.8, 0.1, 0.1])),
        reply(1, 3, softmax=3 * np.array([0.2, 0.4, 0.4])),
    )
    state = merged(method, begun(method), *replies, kind="bias")
    assert state.mixture is None
    assert told("filter", method, state).payload["bias"] == pytest.approx([0.35, 0.325, 0.325])


def test_models_count_by_trusted_labels(bench: Any) -> None:
    method = bench.method()
    replies = (
        reply(0, 10, (1.0, 0.0), trusted=np.array(6.0)),
        reply(1, 10, (0.0, 1.0), trusted=2.0),
    )
    state = merged(method, begun(method), *replies)
    assert state.net["w"].tolist() == pytest.approx([0.75, 0.25])
    # Where nobody trusts a label all count alike.
    replies = (reply(0, 10, (1.0, 0.0), trusted=0.0), reply(1, 10, (0.0, 1.0), trusted=0.0))
    assert merged(method, begun(method), *replies).net["w"].tolist() == pytest.approx([0.5, 0.5])
    # Nobody has more of them than samples.
    replies = (reply(0, 10, (1.0, 0.0), trusted=90.0), reply(1, 30, (0.0, 1.0), trusted=30.0))
    assert merged(method, begun(method), *replies).net["w"].tolist() == pytest.approx([0.25, 0.75])


def test_the_temperature_of_all_clients_is_sent(bench: Any) -> None:
    method = bench.method()
    best = np.full(8, -9.0)
    best[3] = -1.0
    replies = (reply(0, 4, likelihood=best), reply(1, 4, likelihood=np.linspace(0, -1, 8)))
    state = merged(method, begun(method), *replies, kind="bias")
    assert "temperature" not in told("filter", method, state).payload  # there is no filter yet
    counts = np.zeros(64)
    counts[[5, 50]] = 20
    state = merged(method, state, reply(0, 40, histogram=counts), kind="filter")
    assert told("train", method, state).payload["temperature"] == 0.5


def test_a_starved_class_is_pardoned_in_the_next_round(bench: Any) -> None:
    method = bench.method()
    # 12 of 24 labels kept, none of the 8 of class 2; their scores have mean 3.
    tally = np.array([[8.0, 8, 8], [6, 6, 0], [-9, -9, 24]])
    state = merged(method, begun(method), reply(0, 24, (0.0, 0.0), tally=tally))
    sent = told("train", method, state).payload["pardons"]
    assert sent.tolist() == [-np.inf, -np.inf, 3.0]
    assert method.records(state)["starved"] == [2]
    assert method.records(begun(method))["starved"] == []


# Merging


@pytest.mark.parametrize(
    ("variant", "variances"), [("paper", [0.25, 0.5]), ("release", [0.175, 0.35])]
)
def test_models_and_mixtures_are_averaged_by_size(
    bench: Any, variant: str, variances: list[float]
) -> None:
    method = bench.method(method__variant=variant)
    state = merged(
        method,
        begun(method),
        reply(2, 1, (4.0, 0.0), mixture=ONE),
        reply(7, 3, (0.0, 8.0), mixture=TWO),
    )
    assert state.net["w"].tolist() == [1, 6]
    # Shares 1/4 and 3/4; the released code squares them for the variances.
    assert state.mixture == pytest.approx([0.3, 0.85, *variances, 0.3125, 0.6875])


def test_clients_of_earlier_rounds_count_with_their_newest_mixture(bench: Any) -> None:
    method = bench.method(method__variant="paper")
    state = merged(method, begun(method), reply(0, 1, mixture=TWO), reply(1, 3, mixture=TWO))
    state = merged(method, state, reply(0, 1, (1.0, 1.0), mixture=ONE))
    assert state.mixture == pytest.approx([0.3, 0.85, 0.25, 0.5, 0.3125, 0.6875])
    assert state.net["w"].tolist() == [1, 1], "models of this round only"


def test_members_round_counts_this_round_only(bench: Any) -> None:
    method = bench.method(method__variant="degraded")
    state = merged(method, begun(method), reply(0, 1, mixture=TWO), reply(1, 3, mixture=TWO))
    state = merged(method, state, reply(0, 1, mixture=ONE))
    assert state.mixture == pytest.approx(ONE)
    pooled = bench.method(method__filter__members="round")
    state = merged(pooled, begun(pooled), reply(0, 30, histogram=bins(bin20=30)))
    state = merged(pooled, state, reply(1, 40, histogram=bins(bin0=30, bin63=10)))
    assert np.array_equal(state.ledger.histogram, bins(bin0=30, bin63=10))


def test_changes_of_histograms_are_pooled_and_fitted(bench: Any) -> None:
    method = bench.method()
    first = merged(
        method,
        begun(method),
        reply(0, 30, histogram=bins(bin0=20, bin5=10)),
        reply(1, 10, histogram=bins(bin63=10)),
        kind="filter",
    )
    state = merged(method, first, reply(0, 30, histogram=bins(bin0=10, bin5=-10)))
    assert np.array_equal(state.ledger.histogram, bins(bin0=30, bin63=10))
    # Centres of the outermost bins, the floor of 1e-4 · 16², 30 and 10 of 40.
    assert state.mixture == pytest.approx([-7.875, 7.875, 0.0256, 0.0256, 0.75, 0.25])
    assert first.ledger.histogram[5] == 10, "merge returns a new state and leaves the old alone"


def test_a_round_without_replies_changes_nothing(bench: Any) -> None:
    for variant in ("plus", "paper", "degraded"):
        method = bench.method(method__variant=variant)
        payload = {"histogram": bins(bin9=9)} if variant == "plus" else {"mixture": ONE}
        before = merged(method, begun(method), reply(0, 9, (1.0, 2.0), **payload))
        after = merged(method, before)
        assert after.net["w"].tolist() == [1, 2]
        assert np.array_equal(after.mixture, before.mixture)


def test_warm_up_does_not_touch_the_filter(bench: Any) -> None:
    method = bench.method()
    state = begun(method)
    after = merged(method, state, reply(0, 5, (1.0, 2.0)), kind="warmup")
    assert after.net["w"].tolist() == [1, 2]
    assert after.mixture is None
    assert after.ledger is state.ledger


def test_records_are_plain_numbers(bench: Any) -> None:
    method = bench.method(method__variant="paper")
    blank = method.records(begun(method))
    assert blank["mixture"] is None
    assert blank["bias"] == pytest.approx([1 / 3] * 3)
    assert method.records(merged(method, begun(method), reply(0, 4, mixture=ONE)))[
        "mixture"
    ] == pytest.approx(ONE.tolist())

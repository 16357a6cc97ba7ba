"""Auto-weighted ARFL: the weights by hand, and who is asked what."""

from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given

import feddiv
from feddiv.core.errors import Diverged
from feddiv.core.randomness import Streams
from feddiv.core.trees import assemble, dismantle
from feddiv.federation.reply_check import Refused, check_reply
from feddiv.learning.train import TrainOptions
from feddiv.methods.arfl_auto import ArflAuto, ArflAutoOptions, ArflAutoState, auto_weights
from feddiv.methods.contract import Budget, Exchange, Facts, Message, Moment, Reply

RNG = Streams(7).at(round=1)
RUN = {
    "method.name": "arfl_auto",
    "rounds": 3,
    "data.images": 120,
    "train.epochs": 1,
    "clients.count": 4,
    "against": [],
}


def weights(losses: list[float], sizes: list[float], penalty: float) -> list[float]:
    return auto_weights(np.array(losses), np.array(sizes), penalty).tolist()


def test_the_prefix_rule_by_hand() -> None:
    # eta = 2, then (1 + 2) / 2 = 1.5 >= 1, then (1 + 10 + 2) / 4 = 3.25 < 5: two clients count.
    assert weights([0, 1, 5], [1, 1, 2], 2) == pytest.approx([0.75, 0.25, 0])
    # The same clients in another order, and all losses larger by 3.
    assert weights([8, 3, 4], [2, 1, 1], 2) == pytest.approx([0, 0.75, 0.25])
    # eta = 8, (2 + 8) / 3, (2 + 2 + 8) / 4 = 3 >= 2, then (2 + 2 + 16 + 8) / 8 = 3.5 < 4: three
    # clients count, 1 * 3, 2 * 2 and 1 * 1 in 8.
    assert weights([0, 1, 2, 4], [1, 2, 1, 4], 8) == pytest.approx([3 / 8, 4 / 8, 1 / 8, 0])


def test_equal_losses_weigh_by_size() -> None:
    assert weights([1.7] * 3, [2, 3, 5], 10) == pytest.approx([0.2, 0.3, 0.5])


def test_a_small_penalty_leaves_the_best_client_alone_and_a_large_one_weighs_by_size() -> None:
    assert weights([1e9, 1e9 + 1, 1e9 + 2], [1, 1, 2], 1e-9) == pytest.approx([1, 0, 0])
    assert weights([0, 1, 5], [1, 1, 2], 1e9) == pytest.approx([0.25, 0.25, 0.5])


def test_a_loss_beyond_all_measure_costs_nobody_but_its_client() -> None:
    assert weights([1, 1, 6e38], [10, 10, 20], 40) == pytest.approx([0.5, 0.5, 0])


clients = st.lists(st.tuples(st.floats(0, 20), st.integers(1, 600)), min_size=1, max_size=12)


@given(clients, st.floats(0.01, 10))
def test_weights_sum_to_one_and_no_other_weights_are_better(
    clients: list[tuple[float, int]], regularisation: float
) -> None:
    losses, sizes = (np.array(column, np.float64) for column in zip(*clients, strict=True))
    penalty = sizes.sum() * regularisation
    alpha = auto_weights(losses, sizes, penalty)
    assert alpha.sum() == pytest.approx(1)
    assert (alpha >= 0).all()
    # At the optimum no client's slope is below that of the clients that count.
    slopes = losses + penalty * alpha / sizes
    assert slopes[alpha > 0] == pytest.approx(slopes.min(), rel=1e-6, abs=1e-6)


def method(fraction: float = 0.5) -> ArflAuto:
    return ArflAuto(ArflAutoOptions(), TrainOptions(epochs=1), Budget(3, fraction, 0))


def begun(arfl: ArflAuto, sizes: dict[int, int]) -> ArflAutoState:
    facts = Facts(("a", "b"), (3,), sizes, True)
    return arfl.begin(lambda name: {"w": torch.zeros(1)}, facts, RNG)


def learnt(client: int, samples: int, value: float) -> Reply:
    return Reply(client, samples, {"net": {"w": torch.tensor([value])}})


def loss(client: int, samples: int, value: float) -> Reply:
    return Reply(client, samples, metrics={"loss": value})


SIZES = {0: 1, 1: 1, 2: 2}


def exchange(kind: str) -> Exchange:
    return Exchange((0, 1, 2), Message(kind))


def test_a_round_by_hand() -> None:
    arfl = method(1.0)
    state = begun(arfl, SIZES)
    assert state.alpha == {0: 0.25, 1: 0.25, 2: 0.5}
    said = [loss(0, 1, 1.0), loss(1, 1, 2.0), loss(2, 2, 6.0)]
    state = arfl.merge(state, exchange("opening"), said)
    assert state.alpha == {0: 0.25, 1: 0.25, 2: 0.5}
    state = arfl.merge(state, exchange("train"), [learnt(k, SIZES[k], 4.0 * k) for k in range(3)])
    assert state.net["w"].tolist() == [(0 + 1 * 4 + 2 * 8) / 4]
    # Client 2 does not answer: its loss of 6 stays. lambda = N = 4. Less the smallest, losses are
    # 0, 1, 5.5 and eta = 4, 2.5, (1 + 11 + 4) / 4 = 4 < 5.5.
    state = arfl.merge(state, exchange("loss"), [loss(0, 1, 0.5), loss(1, 1, 1.5)])
    assert state.losses == {0: 0.5, 1: 1.5, 2: 6.0}
    assert list(state.alpha.values()) == pytest.approx([2.5 / 4, 1.5 / 4, 0])
    assert arfl.records(state) == {"alpha_zero": pytest.approx(1 / 3)}
    state = arfl.merge(state, exchange("train"), [learnt(k, SIZES[k], 8.0 * k) for k in range(3)])
    assert state.net["w"].tolist() == pytest.approx([8 * 1.5 / 4])


def test_who_never_told_a_loss_counts_as_the_others_do() -> None:
    arfl = method(1.0)
    state = arfl.merge(begun(arfl, SIZES), exchange("opening"), [])
    state = arfl.merge(state, exchange("loss"), [])
    assert list(state.alpha.values()) == pytest.approx([0.25, 0.25, 0.5])
    # Losses 1, 2 and in their place 1.5: eta = (1 + 2 + 2 * 1.5 + 4) / 4 = 2.5
    state = arfl.merge(state, exchange("loss"), [loss(0, 1, 1.0), loss(1, 1, 2.0)])
    assert list(state.alpha.values()) == pytest.approx([1.5 / 4, 0.5 / 4, 2 * 1.0 / 4])


def test_a_huge_loss_does_not_speak_for_those_who_told_none() -> None:
    arfl = method(1.0)
    state = begun(arfl, dict.fromkeys(range(4), 1))
    told = [loss(0, 1, 1.0), loss(1, 1, 1.0), loss(2, 1, 1e4)]
    state = arfl.merge(state, exchange("loss"), told)
    assert list(state.alpha.values()) == pytest.approx([1 / 3, 1 / 3, 0, 1 / 3])
    facts = Facts(("a", "b"), (3,), {0: 1}, iid=True)
    with pytest.raises(Refused, match="loss is outside"):
        check_reply(loss(0, 1, 1e38), arfl.kinds(facts)["loss"], Message("loss"), 1)


def test_exchanges_of_the_first_turn_and_of_a_later_one() -> None:
    arfl = method()
    state = begun(arfl, dict.fromkeys(range(6), 4))
    opening = arfl.plan(state, Moment("train", 0, 0), RNG.at(exchange=0))
    training = arfl.plan(state, Moment("train", 0, 1), RNG.at(exchange=1))
    assert opening is not None
    assert training is not None
    assert (opening.message.kind, opening.clients) == ("opening", (0, 1, 2, 3, 4, 5))
    assert training.message.kind == "train"
    assert len(set(training.clients)) == 3
    # Those are asked for a loss whose training could be used, about what came of it.
    state = arfl.merge(state, training, [learnt(k, 4, 1.0) for k in training.clients[:2]])
    after = arfl.plan(state, Moment("train", 0, 2), RNG.at(exchange=2))
    assert after is not None
    assert (after.message.kind, after.clients) == ("loss", training.clients[:2])
    assert after.message.weights["net"]["w"].tolist() == [1]
    assert arfl.plan(state, Moment("train", 0, 3), RNG.at(exchange=3)) is None
    assert arfl.plan(state, Moment("train", 1, 0), RNG).message.kind == "train"
    assert arfl.plan(state, Moment("train", 1, 1), RNG.at(exchange=1)).message.kind == "loss"
    assert arfl.plan(state, Moment("train", 1, 2), RNG.at(exchange=2)) is None
    # And nobody, if nobody's could.
    lost = arfl.merge(state, training, [])
    assert arfl.plan(lost, Moment("train", 1, 1), RNG.at(exchange=1)) is None
    assert lost.net is state.net


def test_a_selection_that_counts_for_nothing_is_drawn_again_and_always_the_same() -> None:
    arfl = method(0.1)
    state = begun(arfl, dict.fromkeys(range(10), 4))
    first = [arfl.plan(state, Moment("train", 1), RNG.at(round=r)).clients[0] for r in range(40)]
    only = ArflAutoState(state.net, state.sizes, {k: float(k in (3, 4)) for k in range(10)}, {})
    again = [arfl.plan(only, Moment("train", 1), RNG.at(round=r)).clients[0] for r in range(40)]
    assert set(again) == {3, 4}
    assert again == [
        arfl.plan(only, Moment("train", 1), RNG.at(round=r)).clients[0] for r in range(40)
    ]
    # Where the first draw counts, it stays.
    assert any(one in (3, 4) for one in first)
    assert all(one == other for one, other in zip(first, again, strict=True) if one in (3, 4))


def test_a_client_tells_the_mean_cross_entropy_of_its_given_labels(bench: Any) -> None:
    arfl = bench.method("arfl_auto")
    client = bench.client([[0.0, 0, 0], [np.log(2), 0, 0]], [1, 0])
    for kind in ("opening", "loss"):
        bench.passes.clear()
        reply = arfl.visit(client, None, bench.message(kind), bench.rng).reply
        # softmax: 1/3 of three, and 2 / (2 + 1 + 1)
        assert reply.metrics == {"loss": pytest.approx((np.log(3) + np.log(2)) / 2)}
        assert reply.weights is None
        assert reply.payload == {}
        assert arfl.kinds(None)[kind].reply.keys() == {"loss"}
        assert bench.passes == {"plain": 2}


@pytest.mark.parametrize("gain", [1e6, 1e30])
def test_a_client_that_gets_a_spoilt_model_is_heard(bench: Any, gain: float) -> None:
    arfl, spoilt = bench.method("arfl_auto"), bench.message("loss", bench.identity(gain))
    reply = arfl.visit(bench.sure([0, 1], [1, 2]), None, spoilt, bench.rng).reply
    check_reply(reply, arfl.kinds(None)["loss"], spoilt, 2)


def test_a_client_trains_as_in_fedavg(bench: Any) -> None:
    client = bench.sure([0, 1, 2, 0], [0, 1, 1, 2])
    mine, theirs = (
        bench.method(name, train__epochs=2).visit(client, None, bench.message(), bench.rng).reply
        for name in ("arfl_auto", "fedavg")
    )
    assert all(torch.equal(v, theirs.weights["net"][k]) for k, v in mine.weights["net"].items())
    assert mine.metrics.keys() == bench.method("arfl_auto").kinds(None)["train"].reply.keys()


def test_a_model_that_says_nothing_finite_ends_the_run(bench: Any) -> None:
    broken = bench.identity(np.inf)
    with pytest.raises(Diverged):
        bench.method("arfl_auto").visit(
            bench.sure([0, 1], [0, 1]), None, bench.message("loss", broken), bench.rng
        )


def test_the_state_is_a_plain_tree() -> None:
    arfl = method(1.0)
    state = arfl.merge(begun(arfl, SIZES), exchange("train"), [learnt(1, 1, 4.0)])
    state = arfl.merge(state, exchange("loss"), [loss(1, 1, 0.5)])
    back = assemble(ArflAuto.State, *dismantle(state))
    assert back.net["w"].tolist() == state.net["w"].tolist()
    assert (back.sizes, back.alpha, back.losses) == (state.sizes, state.alpha, state.losses)
    assert back.trained == state.trained == (1,)


@pytest.mark.slow
def test_a_run_ends_with_the_same_model_for_any_number_of_workers(tmp_path: Path) -> None:
    alone, together = (
        feddiv.run("quickstart", RUN, out=tmp_path / str(workers), workers=workers)
        for workers in (0, 2)
    )
    assert [line["round"] for line in alone.rounds] == [1, 2, 3]
    assert all(0 <= line["alpha_zero"] < 1 for line in alone.rounds)
    assert alone.summary["model_hash"] == together.summary["model_hash"]


def test_a_run_whose_training_explodes_everywhere_ends_and_says_so(tmp_path: Path) -> None:
    exploding = {**RUN, "train.lr": 1e38, "train.epochs": 5}
    with pytest.raises(Diverged, match=r"train\.lr"):
        feddiv.run("quickstart", exploding, out=tmp_path / "run", workers=0)

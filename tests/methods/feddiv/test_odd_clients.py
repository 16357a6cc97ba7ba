"""FedDiv's visits to clients with too little, or something strange, to train on."""

from typing import Any

import numpy as np
import pytest
from tests.methods.visits import (
    SCALED,
    UNIFORM,
    arrays,
    checked,
    message,
    method,
    mixed_client,
    softmax,
    unchanged,
)

from feddiv.methods.feddiv.exchanges import planned
from feddiv.methods.feddiv.feddiv import FedDivMemory
from feddiv.methods.feddiv.feddiv_options import VARIANTS

# Too little to train on


@pytest.mark.parametrize("right", [10, 11])
def test_the_released_code_wants_more_than_a_batch(bench: Any, right: int) -> None:
    chosen = method(bench, "release", train__batch=10)
    client = mixed_client(bench, right, 5, spread=0.2)
    sent = message(bench, chosen)
    outcome = chosen.visit(client, None, sent, bench.rng)
    assert outcome.diary["clean"] == right
    assert unchanged(outcome, sent) == (right == 10)
    assert (outcome.reply.metrics["divergence"] == 0) == (right == 10)
    # It takes part all the same, with all of n_k, its filter and its p-hat.
    assert outcome.reply.samples == right + 5
    assert outcome.reply.payload.keys() == {"mixture"}
    mean = softmax(bench.logits(outcome.reply.weights["net"], client)).mean(axis=0)
    assert outcome.memory.bias == pytest.approx((UNIFORM + mean) / 2)
    assert outcome.memory.visits == 1


@pytest.mark.parametrize(("right", "trains"), [(0, False), (1, False), (2, True)])
def test_an_epoch_needs_two_samples(bench: Any, right: int, trains: bool) -> None:
    chosen = method(bench, "no-relabel-no-pcs", method__sampler__enabled=True)
    client = mixed_client(bench, right, 6, spread=0.1)
    # Without right labels the least wrong one is scaled to 0, and would be called clean.
    mixture = SCALED if right else [-2.0, 0.5, 0.01, 0.5, 0.5, 0.5]
    sent = message(bench, chosen, mixture=mixture)
    outcome = chosen.visit(client, None, sent, bench.rng)
    assert outcome.diary["clean"] == right
    assert unchanged(outcome, sent) == (not trains)
    assert outcome.diary["reselected"] == ([right, right] if right else [])
    # The filter and p-hat are learnt all the same.
    assert outcome.reply.payload.keys() == {"mixture"}
    assert outcome.memory.bias != pytest.approx(UNIFORM, abs=1e-6)
    assert outcome.memory.visits == 1


def test_the_sampler_may_leave_an_epoch_without_samples(bench: Any) -> None:
    chosen = method(bench, "paper")
    client = bench.sure([0] * 6, [0] * 4 + [1] * 2)
    # p-hat knows class 0 only: y-tilde is another class for every sample.
    memory = FedDivMemory(np.array([1.0, 0.0, 0.0]), visits=1)
    sent = message(bench, chosen)
    outcome = chosen.visit(client, memory, sent, bench.rng)
    assert outcome.diary["reselected"] == [0, 0]
    assert unchanged(outcome, sent)
    assert outcome.reply.payload.keys() == {"mixture"}
    assert outcome.memory.bias[1] > 0


# Odd clients

ODD = {
    "one sample": ([0], [0]),
    "one wrong sample": ([0], [1]),
    "two samples": ([0, 1], [0, 2]),
    "one class": ([1] * 9, [1] * 9),
    "one class given": ([0, 1, 2] * 3, [1] * 9),
    "nothing but noise": ([0, 1, 2] * 4, [1, 2, 0] * 4),
    "no noise": ([0, 1, 2] * 4, [0, 1, 2] * 4),
}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("odd", ODD)
def test_odd_clients_answer_every_message(bench: Any, variant: str, odd: str) -> None:
    chosen, client, memory = method(bench, variant), bench.sure(*ODD[odd]), None
    kinds = [*planned(chosen.options), *([] if variant == "audit" else ["train"])]
    for turn, kind in enumerate(kinds):
        sent = message(bench, chosen, kind, gain=1 - turn / 10)
        outcome = chosen.visit(client, memory, sent, bench.rng.at(round=turn))
        checked(chosen, outcome, sent, client)
        memory = outcome.memory
        assert all(np.isfinite(array).all() for array in arrays(memory))
        if len(client) == 1 and outcome.reply.weights:
            assert unchanged(outcome, sent)
    assert memory.visits == kinds.count("train")
    opinion = chosen.assess(client, memory, message(bench, chosen, "assess"))
    assert len(opinion.predicted) == len(opinion.p_clean) == len(opinion.scores) == len(client)
    assert np.isfinite(opinion.p_clean).all()
    chosen.assess(client, None, message(bench, chosen, "assess"))


def test_nothing_but_noise_under_the_perfect_filter_is_all_relabelled(bench: Any) -> None:
    chosen = method(bench, "perfect-filter")
    client = bench.sure(*ODD["nothing but noise"])
    diary = chosen.visit(client, None, message(bench, chosen), bench.rng).diary
    assert (diary["clean"], diary["noisy"], diary["relabelled"]) == (0, 12, 12)
    assert diary["relabelled_right"] == 12
    assert diary["noise_level"] == diary["true_noise_level"] == 1


def test_no_noise_is_left_alone(bench: Any) -> None:
    client = bench.client(np.eye(3)[[0, 1, 2] * 6] * np.linspace(1, 6, 18)[:, None], [0, 1, 2] * 6)
    chosen = method(bench)
    # The noisy component believes its labels: the no-noise rule holds for every score.
    sent = message(bench, chosen, mixture=[-5.0, -1.0, 1.0, 1.0, 0.5, 0.5], bias=UNIFORM)
    diary = chosen.visit(client, None, sent, bench.rng).diary
    assert (diary["clean"], diary["noisy"], diary["reselected"]) == (18, 0, [18, 18])


def test_a_client_without_true_labels_keeps_a_shorter_diary(bench: Any) -> None:
    chosen = method(bench)
    client = bench.client(4 * np.eye(3)[[0, 1, 2, 0]], [0, 1, 2, 1])
    diary = chosen.visit(client, None, message(bench, chosen), bench.rng).diary
    assert diary.keys() == {
        "noise_level",
        "dropped",
        "clean",
        "noisy",
        "pardoned",
        "relabelled",
        "reselected",
        "scores",
    }
    assert sum(diary["scores"]["given"]) == 4
    assert diary["scores"].keys() == {"low", "high", "given"}
    perfect = method(bench, "perfect-filter")
    with pytest.raises(ValueError, match="needs true labels"):
        perfect.visit(client, None, message(bench, perfect), bench.rng)

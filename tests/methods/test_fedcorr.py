"""FedCorr: stages, who is noisy, whose labels are corrected, and that they stay so."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.methods.visits import checked, kept, mixed_client, softmax

import feddiv
from feddiv.core.randomness import Streams
from feddiv.core.trees import pack, unpack
from feddiv.learning.score import label_scores
from feddiv.learning.train import TrainOptions
from feddiv.methods.contract import Budget, Exchange, Facts, Message, Moment, Reply
from feddiv.methods.fedcorr.fedcorr import (
    FedCorr,
    FedCorrMemory,
    FedCorrOptions,
    FedCorrState,
    clean_pool,
    largest,
    noisy_clients,
)
from feddiv.methods.fedcorr.lid import intrinsic_dimensions

RNG = Streams(1).at(round=1)
CLIENTS = 6


def made(rounds: int = 1000, fraction: float = 0.5, iterations: int = 5) -> FedCorr:
    return FedCorr(FedCorrOptions(), TrainOptions(), Budget(rounds, fraction, iterations))


def started(method: FedCorr, **changed: Any) -> FedCorrState:
    facts = Facts(("a", "b"), (3,), dict.fromkeys(range(CLIENTS), 4), True)
    return replace(method.begin(lambda name: {"w": torch.zeros(1)}, facts, RNG), **changed)


def planned(method: FedCorr, state: FedCorrState, stage: str, turn: int = 0) -> list[Exchange]:
    """All exchanges of a turn, if nothing of them changed the state."""
    found: list[Exchange] = []
    while True:
        exchange = method.plan(state, Moment(stage, turn, len(found)), RNG)
        if exchange is None:
            return found
        found.append(exchange)


# Stages


@pytest.mark.parametrize(
    ("rounds", "fraction", "iterations", "turns"),
    [
        (1000, 0.1, 5, (5, 500, 450)),  # the paper's for CIFAR-10
        (6, 0.5, 1, (1, 2, 2)),
        (3, 0.5, 1, (1, 0, 1)),
        (4, 1.0, 0, (0, 2, 2)),
    ],
)
def test_what_is_left_after_pre_processing_is_shared(
    rounds: int, fraction: float, iterations: int, turns: tuple[int, ...]
) -> None:
    stages = made(rounds, fraction, iterations).stages()
    assert [stage.name for stage in stages] == ["preprocess", "finetune", "train"]
    assert tuple(stage.turns for stage in stages) == turns
    assert sum(stage.turns * stage.rounds for stage in stages) == rounds


def test_pre_processing_hands_the_model_from_client_to_client_then_corrects() -> None:
    method = made()
    lids = {k: (1.0 + k / 100,) if k < 4 else (3.0 + k / 100,) for k in range(CLIENTS)}
    levels = {k: k / 10 for k in range(CLIENTS)}
    state = started(method, lids=lids, noise_levels=levels)
    *visits, last = planned(method, state, "preprocess", turn=1)
    assert sorted(exchange.clients for exchange in visits) == [(k,) for k in range(CLIENTS)]
    assert [exchange.clients[0] for exchange in visits] != list(range(CLIENTS))
    for exchange in visits:
        level = float(exchange.message.payload["noise_level"])
        assert (exchange.message.kind, level) == ("preprocess", levels[exchange.clients[0]])
    assert (last.clients, last.message.kind) == ((4, 5), "correct")


def test_when_all_are_compared_each_gets_its_own_noise_level() -> None:
    method, levels = made(), {k: k / 10 for k in range(CLIENTS)}
    state = started(method, noise_levels=levels)
    first = planned(method, state, "preprocess", turn=1)[0]
    everyone = method.introduction(state, first, tuple(range(CLIENTS)))
    assert everyone.clients == tuple(range(CLIENTS))
    said = {k: everyone.to(k).payload["noise_level"] for k in range(CLIENTS)}
    assert said == levels
    assert method.stages()[0].hands_over
    assert method.hands_over


def test_fine_tuning_visits_clean_clients_only() -> None:
    method = made(fraction=0.5)
    levels = {0: 0.0, 1: 0.5, 2: 0.1, 3: 0.11, 4: 0.6, 5: 0.7}
    (exchange,) = planned(method, started(method, noise_levels=levels), "finetune", turn=7)
    assert sorted(exchange.clients) == [0, 2], "three were wanted; two are clean"
    assert (exchange.message.kind, exchange.message.payload) == ("train", {})


def test_usual_training_begins_with_a_correction_of_all_noisy_clients() -> None:
    method = made(fraction=0.5)
    state = started(method, noisy=(1, 4))
    correction, training = planned(method, state, "train")
    assert (correction.message.kind, correction.clients) == ("relabel", (1, 4))
    assert (training.message.kind, len(set(training.clients))) == ("train", 3)
    assert [exchange.message.kind for exchange in planned(method, state, "train", 1)] == ["train"]
    assert [e.message.kind for e in planned(method, started(method), "train")] == ["train"]


# The server's opinion of clients


def test_clients_of_larger_cumulative_lid_are_noisy() -> None:
    lids = {0: (1.0, 1.2), 1: (2.0, 2.9), 2: (1.1, 1.0), 3: (2.4, 2.7), 4: (1.6, 0.5)}
    assert noisy_clients(lids) == (1, 3)  # sums 2.2, 4.9, 2.1, 5.1, 2.1


@pytest.mark.parametrize("lie", [(1000.0, 1000.0), (0.0, 0.0)])
def test_one_client_that_lies_is_no_group_of_its_own(lie: tuple[float, ...]) -> None:
    lids = {0: (1.0, 1.2), 1: (2.0, 2.9), 2: (1.1, 1.0), 3: (2.4, 2.7), 4: (2.2, 2.5), 5: lie}
    assert set(noisy_clients(lids)) - {5} == {1, 3, 4}


def test_clients_that_did_not_say() -> None:
    # Client 2 missed an iteration: 2.5 counts as 5. Client 4 is too small: the median, 2.2.
    lids = {0: (1.0, 1.2), 1: (1.0, 1.1), 2: (2.5,), 3: (1.1, 1.1), 4: ()}
    assert noisy_clients(lids) == (2,)


@pytest.mark.parametrize(
    "lids", [{}, {0: ()}, {0: (1.0,)}, {0: (), 1: ()}, {0: (1.0,), 1: (1.0,)}, {0: (1.0,), 1: ()}]
)
def test_without_two_different_scores_nobody_is_noisy(lids: dict) -> None:
    assert noisy_clients(lids) == ()


def test_the_clean_pool() -> None:
    assert clean_pool({0: 0.0, 1: 0.1, 2: 0.3, 3: 0.05}, 0.1, 1) == (0, 1, 3)


def test_an_empty_clean_pool_falls_back_to_the_cleanest() -> None:
    assert clean_pool({0: 0.5, 1: 0.3, 2: 0.4, 3: 0.3}, 0.1, 3) == (1, 3, 2)
    method = made(fraction=0.4)  # of six clients two take part, and three are to choose from
    levels = {0: 0.5, 1: 0.3, 2: 0.4, 3: 0.9, 4: 0.8, 5: 0.7}
    state = started(method, noise_levels=levels)
    chosen = {
        client
        for turn in range(20)
        for client in method.plan(state, Moment("finetune", turn), RNG.at(round=turn)).clients
    }
    assert chosen == {0, 1, 2}


def merged(method: FedCorr, state: FedCorrState, exchange: Exchange, *replies: Reply) -> Any:
    return method.merge(state, exchange, list(replies))


def test_a_hand_over_takes_the_model_and_adds_the_lid() -> None:
    method = made()
    state, exchange = started(method), Exchange((3,), Message("preprocess"))
    for lid, total in ((2.0, (2.0,)), (3.0, (2.0, 3.0))):
        weights = {"net": {"w": torch.tensor([lid])}}
        reply = Reply(3, 4, weights, {"lid": np.array(lid)})
        state = merged(method, state, exchange, reply)
        assert state.net["w"].item() == lid
        assert state.lids == {**dict.fromkeys(range(CLIENTS), ()), 3: total}


def test_noise_levels_are_those_of_the_last_iteration() -> None:
    method = made()
    before = {0: 0.2, 1: 0.3, 2: 0.4, 3: 0.0, 4: 0.0, 5: 0.0}
    state = started(method, noise_levels=before, noisy=(0, 1, 2))
    exchange = Exchange((1, 2, 3), Message("correct"))
    told = [Reply(k, 4, payload={"noise_level": np.array(k / 8)}) for k in (1, 3)]
    after = merged(method, state, exchange, *told)
    # 0 is clean now, 2 did not answer and keeps its level.
    assert after.noise_levels == {0: 0, 1: 0.125, 2: 0.4, 3: 0.375, 4: 0, 5: 0}
    assert after.noisy == (1, 2, 3)
    assert after.net is state.net
    nobody = merged(method, after, Exchange((), Message("correct")))
    assert nobody.noisy == ()
    assert set(nobody.noise_levels.values()) == {0.0}


def test_the_state_can_be_written_down() -> None:
    state = started(made(), lids={0: (1.0, 2.0), 7: ()}, noisy=(1, 4))
    again = unpack(FedCorrState, pack(state))
    assert replace(again, net={}) == replace(state, net={})
    memory = FedCorrMemory(np.array([1, 2]), np.array([0.5, 1.5]))
    copy = unpack(FedCorrMemory, pack(memory))
    assert copy.labels.tolist() == [1, 2]
    assert copy.losses.tolist() == [0.5, 1.5]


# The client

SAYS = [0, 1, 2, 0, 1, 2, 0, 1, 2, 0]
GIVEN = [0, 1, 2, 0, 1, 2, 1, 2, 0, 1]  # the last four are wrong
LOSSES = np.array([1.50, 1.52, 1.51, 1.53, 1.50, 1.52, 2.40, 2.42, 2.41, 2.39])


def small(bench: Any, **settings: object) -> Any:
    training = {"train__epochs": 2, "train__batch": 4, "train__lr": 0.01}
    return bench.method("fedcorr", **{"warmup__iterations": 1, **training, **settings})


def message(bench: Any, kind: str, **payload: float) -> Message:
    arrays = {name: np.array(value) for name, value in payload.items()}
    return Message(kind, {"net": bench.identity()}, arrays)


def test_pre_processing_sends_one_score_and_keeps_the_losses(bench: Any) -> None:
    method, client = small(bench), mixed_client(bench, 14, 6, spread=0.5)
    sent = message(bench, "preprocess", noise_level=0.5)
    outcome = method.visit(client, None, sent, bench.rng)
    checked(method, outcome, sent, client)
    logits = bench.logits(outcome.reply.weights["net"], client)
    expected = intrinsic_dimensions(softmax(logits), 20).mean()  # 19 neighbours there are
    assert float(outcome.reply.payload["lid"]) == pytest.approx(expected, rel=1e-3)
    assert outcome.reply.payload.keys() == {"lid"}
    assert outcome.reply.metrics.keys() == {"divergence"}
    losses = label_scores(logits, client.samples.given.numpy(), "bounded")
    assert outcome.memory.losses == pytest.approx(losses, abs=1e-5)
    assert outcome.memory.labels is None


@pytest.mark.parametrize("samples", [1, 2, 3])
def test_a_client_of_less_than_three_samples_has_no_score(bench: Any, samples: int) -> None:
    method, client = small(bench), mixed_client(bench, samples, 0)
    sent = message(bench, "preprocess", noise_level=0.0)
    outcome = method.visit(client, None, sent, bench.rng)
    checked(method, outcome, sent, client)
    assert ("lid" in outcome.reply.payload) == (samples == 3)


def test_noisy_clients_are_held_back(bench: Any) -> None:
    moved = {}
    for squared in (False, True):
        method = small(bench, method__squared=squared, train__lr=0.05)
        for level in (0.0, 1.0):
            sent = message(bench, "preprocess", noise_level=level)
            outcome = method.visit(mixed_client(bench), None, sent, bench.rng)
            moved[squared, level] = outcome.reply.metrics["divergence"]
    assert moved[False, 0.0] == moved[True, 0.0]
    assert moved[False, 1.0] != moved[True, 1.0]
    assert moved[True, 1.0] < moved[True, 0.0]


def test_the_noise_level_and_the_candidates(bench: Any) -> None:
    # Four of ten losses are large: 0.4. Half of them are candidates, the two largest: 7 and 8.
    method, client = small(bench), bench.sure(SAYS, GIVEN)
    sent = message(bench, "correct")
    outcome = method.visit(client, FedCorrMemory(losses=LOSSES), sent, bench.rng)
    checked(method, outcome, sent, client)
    assert outcome.reply.weights is None
    assert {name: float(value) for name, value in outcome.reply.payload.items()} == {
        "noise_level": 0.4
    }
    assert outcome.memory.labels.tolist() == [*GIVEN[:7], SAYS[7], SAYS[8], GIVEN[9]]
    assert outcome.memory.losses is LOSSES
    assert outcome.diary["relabelled"] == 2
    assert outcome.diary["noise_level"] == outcome.diary["true_noise_level"] == 0.4
    assert outcome.diary["filter"]["flagged_wrong"] == 4


@pytest.mark.parametrize(
    ("settings", "changed"),
    [
        ({"confidence": 0.96}, [7, 8]),
        ({"confidence": 0.97}, []),  # the model is sure by e^4 / (e^4 + 2) = 0.965
        ({"relabel_share": 0.24}, []),  # 0.96 of a sample
        ({"relabel_share": 0.25}, [7]),
        ({"relabel_share": 1.0}, [6, 7, 8, 9]),
    ],
)
def test_corrections_need_a_large_loss_and_a_sure_model(
    bench: Any, settings: dict, changed: list[int]
) -> None:
    method = small(bench, **{f"method__{key}": value for key, value in settings.items()})
    memory, sent = FedCorrMemory(losses=LOSSES), message(bench, "correct")
    outcome = method.visit(bench.sure(SAYS, GIVEN), memory, sent, bench.rng)
    assert np.flatnonzero(outcome.memory.labels != np.array(GIVEN)).tolist() == changed


def test_a_model_that_is_exactly_as_sure_as_needed_is_not_sure(bench: Any) -> None:
    # Two equal logits far above the third: one half each.
    client = bench.client([[800.0, 800, 0]] * 3, [2, 2, 2])
    memory = FedCorrMemory(losses=np.array([1.0, 2.0, 2.0]))
    for confidence, labels in ((0.5, [2, 2, 2]), (0.49, [2, 0, 2])):
        method = small(bench, method__confidence=confidence)
        outcome = method.visit(client, memory, message(bench, "correct"), bench.rng)
        assert outcome.memory.labels.tolist() == labels


@pytest.mark.parametrize("losses", [None, np.full(10, 1.5)])
def test_without_losses_that_differ_nothing_is_noisy(bench: Any, losses: Any) -> None:
    memory = None if losses is None else FedCorrMemory(losses=losses)
    sent = message(bench, "correct")
    outcome = small(bench).visit(bench.sure(SAYS, GIVEN), memory, sent, bench.rng)
    assert float(outcome.reply.payload["noise_level"]) == 0
    assert outcome.memory.labels.tolist() == GIVEN


def test_after_fine_tuning_every_sure_sample_is_corrected(bench: Any) -> None:
    method, client = small(bench), bench.sure(SAYS, GIVEN)
    sent = message(bench, "relabel")
    outcome = method.visit(client, FedCorrMemory(losses=LOSSES), sent, bench.rng)
    checked(method, outcome, sent, client)
    assert outcome.reply.payload == {}
    assert outcome.memory.labels.tolist() == SAYS
    assert outcome.diary == {"relabelled": 4}


def test_corrections_are_for_good(bench: Any) -> None:
    method, client = small(bench), bench.sure(SAYS, GIVEN)
    corrected = FedCorrMemory(np.array(SAYS), LOSSES)
    trained = kept(method.visit(client, corrected, message(bench, "train"), bench.rng))
    checked(method, trained, message(bench, "train"), client)
    assert trained.memory.labels.tolist() == SAYS
    # Training uses them: the same as of a client that was given them.
    right = method.visit(bench.sure(SAYS, SAYS), None, message(bench, "train"), bench.rng)
    for key, value in right.reply.weights["net"].items():
        assert torch.equal(value, trained.reply.weights["net"][key])
    # So do the next losses.
    sent = message(bench, "preprocess", noise_level=0.0)
    again = method.visit(client, corrected, sent, bench.rng)
    assert again.memory.labels.tolist() == SAYS
    assert np.ptp(again.memory.losses) < 0.1


def test_training_is_plain_mixup(bench: Any) -> None:
    outcomes = [
        kept(method.visit(bench.sure(SAYS, GIVEN), None, bench.message(), bench.rng)).reply
        for method in (
            small(bench),
            bench.method(
                "fedavg",
                method__variant="mixup",
                train__epochs=2,
                train__batch=4,
                train__lr=0.01,
            ),
        )
    ]
    ours, theirs = (outcome.weights["net"] for outcome in outcomes)
    assert all(torch.equal(value, theirs[key]) for key, value in ours.items())


def test_its_opinion_is_what_it_corrected(bench: Any) -> None:
    method, client, sent = small(bench), bench.sure(SAYS, GIVEN), message(bench, "assess")
    memory = FedCorrMemory(np.array([*GIVEN[:8], SAYS[8], SAYS[9]]))
    opinion = method.assess(client, memory, sent)
    assert opinion.predicted.tolist() == SAYS
    assert opinion.p_clean.tolist() == [1.0] * 8 + [0.0] * 2
    assert method.assess(client, None, sent).p_clean.tolist() == [1.0] * 10


def test_the_largest() -> None:
    assert largest(np.array([1.0, 3, 2, 3]), 1).tolist() == [False, True, False, False]
    assert largest(np.array([1.0, 3, 2, 3]), 3).tolist() == [False, True, True, True]
    assert largest(np.array([1.0, 3, 2, 3]), 0).tolist() == [False] * 4


# Whole runs

TINY = {
    "method.name": "fedcorr",
    "rounds": 6,
    "warmup.iterations": 1,
    "data.images": 120,
    "train.epochs": 2,
    "clients.count": 4,
    "against": [],
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> feddiv.Run:
    return feddiv.run("quickstart", TINY, out=tmp_path_factory.mktemp("run") / "run", workers=0)


@pytest.mark.slow
def test_a_run_goes_through_its_stages(run: feddiv.Run) -> None:
    stages = [line["stage"] for line in run.rounds]
    assert stages == ["preprocess", "finetune", "finetune", "train", "train"]
    assert [line["round"] for line in run.rounds] == [2, 3, 4, 5, 6]
    assert not any(line["missing"] for line in run.rounds)
    first, last = run.rounds[0], run.rounds[-1]
    assert first["visits"] == 4 + len(first["noisy_clients"])
    assert last["noisy_clients"] == first["noisy_clients"] != []
    assert set(run.assessment["label_quality"]) <= {0.0, 1.0}


@pytest.mark.slow
def test_workers_give_the_same_bits(run: feddiv.Run, tmp_path: Path) -> None:
    again = feddiv.run("quickstart", TINY, out=tmp_path / "run", workers=2)
    assert again.summary["model_hash"] == run.summary["model_hash"]


class Stop(feddiv.Watcher):
    """Stops after the first turn."""

    def round(self, line: dict[str, Any]) -> None:
        raise KeyboardInterrupt


@pytest.mark.slow
def test_labels_and_noise_levels_survive_a_stop(run: feddiv.Run, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        feddiv.run("quickstart", TINY, out=tmp_path / "run", workers=0, watcher=Stop())
    again = feddiv.resume(tmp_path / "run", workers=0)
    assert again.summary["model_hash"] == run.summary["model_hash"]
    for key, values in run.assessment.items():
        assert np.array_equal(again.assessment[key], values)

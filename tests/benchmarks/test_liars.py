"""Liars of the attack benchmark say what the attack wants; everybody else says the truth."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from liars import LyingInProcess, chosen_liars
from lies import ATTACKS, times

from feddiv.config.reading import load_experiment
from feddiv.core.randomness import Streams
from feddiv.federation.federation import Absence, Federation
from feddiv.federation.in_process import InProcess
from feddiv.learning.average import copied
from feddiv.learning.quality import filter_quality
from feddiv.methods.contract import Exchange, Moment, Reply
from feddiv.runs.prepare import Prepared, prepare
from feddiv.runs.run import Run
from feddiv.runs.run_folder import RunFolder
from feddiv.runs.start_and_resume import Watcher, run_experiment

TINY = {"data.images": 60, "clients.count": 3, "train.epochs": 1, "clients.fraction": 1.0}
LIAR = frozenset({1})
BIAS, FILTER, TRAIN = range(3)  # exchanges of the first filtered round


@pytest.fixture(scope="module")
def prepared() -> Prepared:
    return prepare(load_experiment("quickstart", TINY))


def exchanges(prepared: Prepared) -> tuple[list[Exchange], Streams]:
    """What all clients are sent in the first filtered round, from a fresh model."""
    method, rng = prepared.workspace.method, Streams(0).at(round=1)
    federation = InProcess(prepared.workspace)
    state = method.begin(lambda name: federation.make_model(name, rng), federation.facts, rng)
    moments = [Moment("train", 0, number) for number in (BIAS, FILTER, TRAIN)]
    planned = [method.plan(state, moment, rng) for moment in moments]
    return [each for each in planned if each is not None], rng


def said(federation: InProcess, exchange: Exchange, rng: Streams) -> dict[int, Reply]:
    """Replies by client; the server takes them all."""
    replies = {}
    for visit in federation.visits(exchange, rng):
        reply = visit.reply
        if reply.weights is not None:  # only lent
            reply = replace(reply, weights=copied(reply.weights))
        replies[reply.client] = reply
        federation.accept(reply.client, visit.memory)
    federation.commit()
    return replies


def lying(prepared: Prepared, attack: str) -> LyingInProcess:
    federation = LyingInProcess(prepared.workspace)
    federation.lie(ATTACKS[attack], LIAR)
    return federation


def test_all_clean_adds_up_to_a_histogram_with_everything_at_the_clean_end(
    prepared: Prepared,
) -> None:
    (_, opening, training), rng = exchanges(prepared)
    honest, federation = InProcess(prepared.workspace), lying(prepared, "all clean")
    total = np.zeros(64)
    for number, exchange in enumerate((opening, training, training)):
        here = rng.at(exchange=number)
        true, told = said(honest, exchange, here), said(federation, exchange, here)
        assert np.array_equal(told[0].payload["histogram"], true[0].payload["histogram"])
        total += told[1].payload["histogram"]
        assert total[0] == total.sum() == told[1].samples == 20
    given, kept, scores = told[1].payload["tally"]  # the second time nothing has changed
    assert not given.any()
    assert not kept.any()
    assert not scores.any()


def test_a_lie_that_was_refused_is_told_again(prepared: Prepared) -> None:
    (_, opening, _), rng = exchanges(prepared)
    federation = lying(prepared, "all noisy")
    for _ in range(2):
        histograms = []
        for visit in federation.visits(opening, rng):
            assert not isinstance(visit, Absence)
            histograms.append(visit.reply.payload["histogram"])
        federation.discard()
        assert histograms[1][-1] == 20


def test_somebody_elses_labels_are_possible_and_not_its_own(prepared: Prepared) -> None:
    (_, opening, _), rng = exchanges(prepared)
    true = said(InProcess(prepared.workspace), opening, rng)[1].payload["histogram"]
    told = said(lying(prepared, "somebody else's labels"), opening, rng)[1].payload["histogram"]
    assert told.sum() == true.sum() == 20
    assert not np.array_equal(told, true)


def test_an_inflated_client_says_so_everywhere(prepared: Prepared) -> None:
    (bias, _, _), rng = exchanges(prepared)
    federation = lying(prepared, "n_k × 1000, update × −1")
    reply = said(federation, bias, rng)[1]
    assert federation.facts.sizes == {0: 20, 1: 20_000, 2: 20}
    assert reply.samples == 20_000
    assert reply.payload["softmax"].sum() == pytest.approx(20_000)


def test_updates_are_turned_round_but_for_batch_norm(prepared: Prepared) -> None:
    (_, _, training), rng = exchanges(prepared)
    true = said(InProcess(prepared.workspace), training, rng)
    told = said(lying(prepared, "update × −1"), training, rng)
    received = training.message.weights["net"]
    for key, value in _net(true[1]).items():
        if not value.is_floating_point():
            continue
        wanted = value if "running_" in key else 2 * received[key] - value
        assert _net(told[1])[key].allclose(wanted, atol=1e-6)
        assert _net(told[0])[key].equal(_net(true[0])[key])


def test_a_scaled_update_by_hand() -> None:
    received, trained = {"w": torch.tensor([1.0])}, {"w": torch.tensor([3.0])}
    assert times(-10)(received, trained)["w"].tolist() == [-19.0]


def test_an_answer_for_another_is_not_delivered(prepared: Prepared) -> None:
    pytest.importorskip("flwr")
    (_, opening, _), rng = exchanges(prepared)
    federation = lying(prepared, "answers for another, update × −1")
    outcomes = list(federation.visits(opening, rng))
    answered = [outcome.reply.client for outcome in outcomes if not isinstance(outcome, Absence)]
    (absent,) = [outcome for outcome in outcomes if isinstance(outcome, Absence)]
    assert answered == [0, 2]
    assert absent == Absence(1, "answers for client 2 instead of 1")


def test_liars_are_drawn_by_the_seed_and_few_are_among_many() -> None:
    few, many = chosen_liars(10, 0.1, 3), chosen_liars(10, 0.3, 3)
    assert (len(few), len(many)) == (1, 3)
    assert few < many
    assert many == chosen_liars(10, 0.3, 3)
    assert len({chosen_liars(10, 0.3, seed) for seed in range(8)}) > 1
    assert chosen_liars(10, 0.0, 3) == frozenset()


@pytest.mark.slow
def test_an_update_that_is_turned_round_is_left_out_of_a_run(tmp_path: Path) -> None:
    settings = {
        **{"data.images": 300, "clients.count": 5, "clients.fraction": 1.0, "train.epochs": 2},
        **{"method.name": "fedavg", "rounds": 3, "against": [], "checkpoint.seconds": 0},
        "robust.weights": "aligned",
    }

    def run(lie: bool, name: str) -> Run:
        def carrier(prepared: Prepared, folder: RunFolder) -> Federation:
            federation = LyingInProcess(prepared.workspace, folder.path / "checkpoint" / "nets")
            federation.lie(ATTACKS["update × −1" if lie else "none"], LIAR)
            return federation

        experiment = load_experiment("quickstart", settings)
        return run_experiment(experiment, RunFolder(tmp_path / name), Watcher(), carrier=carrier)

    lied = run(True, "lied")
    lines = [json.loads(line) for line in (lied.folder / "clients.jsonl").read_text().splitlines()]
    left_out = [(line["turn"], line["client"]) for line in lines if "left_out" in line]
    assert left_out == [(1, 1), (2, 1), (3, 1)]
    honest = run(False, "honest")
    assert "left_out" not in (honest.folder / "clients.jsonl").read_text()


@pytest.mark.slow
def test_a_hand_over_in_which_one_turns_its_update_round_is_as_good_as_an_honest_one(
    tmp_path: Path,
) -> None:
    settings = {
        **{"data.images": 300, "clients.count": 5, "clients.fraction": 1.0, "train.epochs": 1},
        **{"warmup.iterations": 2, "rounds": 3, "against": [], "checkpoint.seconds": 0},
        **{"robust.weights": "aligned", "robust.clip": 1000, "robust.introductions": 2},
    }

    def warmed_up(attack: str, opposed: str, introductions: int = 2) -> tuple[Any, list[Any]]:
        """Test accuracy after each turn of warm-up, and what the journal says of the liar there."""

        def carrier(prepared: Prepared, folder: RunFolder) -> Federation:
            federation = LyingInProcess(prepared.workspace, folder.path / "checkpoint" / "nets")
            federation.lie(ATTACKS[attack], LIAR)
            return federation

        changed = {"robust.opposed": opposed, "robust.introductions": introductions}
        experiment = load_experiment("quickstart", {**settings, **changed})
        folder = RunFolder(tmp_path / f"{attack} {opposed} {introductions}")
        run_experiment(experiment, folder, Watcher(), carrier=carrier)
        lines = [json.loads(x) for x in (folder.path / "clients.jsonl").read_text().splitlines()]
        said = [(x["turn"], key) for x in lines for key in ("left_out", "turned_back") if key in x]
        found = [x["test_loss"] for x in folder.rounds()][:2]
        return found, [each for each in said if each[0] <= 2]

    honest = warmed_up("none", "turned_back")
    assert honest[1] == []
    turned = warmed_up("update × −1", "turned_back")
    assert turned[1] == [(1, "turned_back"), (2, "turned_back")]
    assert turned[0] == pytest.approx(honest[0], rel=1e-3)  # but for roundings
    assert warmed_up("update × −1", "left_out")[1] == [(1, "left_out"), (2, "left_out")]
    spoilt = warmed_up("update × −1", "turned_back", introductions=0)
    assert spoilt[1] == []
    assert spoilt[0][1] > 1.1 * honest[0][1]


@pytest.mark.slow
def test_others_are_asked_in_the_place_of_who_is_turned_round(tmp_path: Path) -> None:
    settings = {
        **{"data.images": 400, "clients.count": 8, "clients.fraction": 0.5, "train.epochs": 2},
        **{"method.name": "fedavg", "rounds": 12, "against": [], "noise.name": "none"},
        **{"robust.weights": "aligned", "checkpoint.seconds": 0},
    }

    def visited(name: str, **more: object) -> list[set[int]]:
        """Who was asked, round by round."""

        def carrier(prepared: Prepared, folder: RunFolder) -> Federation:
            federation = LyingInProcess(prepared.workspace, folder.path / "checkpoint" / "nets")
            federation.lie(ATTACKS["update × −1"], LIAR)
            return federation

        experiment = load_experiment("quickstart", {**settings, **more})
        folder = RunFolder(tmp_path / name)
        run_experiment(experiment, folder, Watcher(), carrier=carrier)
        text = (folder.path / "clients.jsonl").read_text()
        lines = [json.loads(line) for line in text.splitlines()]
        return [{x["client"] for x in lines if x["turn"] == turn} for turn in range(1, 13)]

    plain, others = visited("plain"), visited("others", **{"robust.substitutes": True})
    known = next(turn for turn, asked in enumerate(plain) if asked >= LIAR) + 1
    assert others[:known] == plain[:known]  # until its first update nobody can know
    assert sum(asked >= LIAR for asked in plain[known:]) > 2
    assert sum(asked >= LIAR for asked in others[known:]) < sum(
        asked >= LIAR for asked in plain[known:]
    )
    assert all(len(asked) == 4 for asked in others)


@pytest.mark.slow
def test_what_liars_say_of_their_scores_does_not_reach_a_robust_filter(tmp_path: Path) -> None:
    settings = {"data.images": 500, "rounds": 8, "warmup.iterations": 2, "train.epochs": 2}
    liars = chosen_liars(10, 0.3, seed=0)

    def judged(attack: str, rule: str) -> tuple[Any, float]:
        """Honest clients' p(clean) at the end, and the filter's F1 on them."""

        def carrier(prepared: Prepared, folder: RunFolder) -> Federation:
            federation = LyingInProcess(prepared.workspace, folder.path / "checkpoint" / "nets")
            federation.lie(ATTACKS[attack], liars)
            return federation

        chosen = {**settings, "against": [], "robust.filter": rule, "seed": 0}
        experiment = load_experiment("quickstart", chosen)
        folder = RunFolder(tmp_path / f"{attack} {rule}")
        found = run_experiment(experiment, folder, Watcher(), carrier=carrier).assessment
        honest = ~np.isin(found["client"], list(liars))
        wrong = (found["given_label"] != found["true_label"])[honest]
        quality = found["label_quality"][honest]
        return quality, filter_quality(quality, wrong)["f1"] or 0.0

    noisy, f1 = judged("all noisy", "trimmed_mean")
    clean, _ = judged("all clean", "trimmed_mean")
    assert np.allclose(noisy, clean, atol=1e-9)  # opposite lies of 30 % of the clients, one filter
    assert f1 > 0.8
    assert judged("all noisy", "sum")[1] < 0.1  # the plain sum collapses


def _net(reply: Reply) -> Any:
    assert reply.weights is not None
    return reply.weights["net"]

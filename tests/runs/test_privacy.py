"""Whole runs with a private filter, in this process and with workers."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import feddiv
from feddiv.config.reading import load_experiment
from feddiv.core.errors import TooFew
from feddiv.core.randomness import Streams
from feddiv.federation.in_process import InProcess
from feddiv.methods.contract import Exchange, Visit
from feddiv.runs.evaluate import evaluation_of
from feddiv.runs.loop import Loop
from feddiv.runs.prepare import prepare

pytestmark = pytest.mark.slow

SMALL: dict[str, Any] = {
    "rounds": 4,
    "clients.count": 6,
    "clients.fraction": 1.0,
    "warmup.iterations": 1,
    "train.epochs": 1,
    "data.images": 240,
    "model.name": "mlp",
    "against": [],
}
PLAIN = {**SMALL, "method.weigh_by_trust": "never"}
SUM = {**SMALL, "privacy.filter": "sum_only"}
Change = Callable[[Exchange, Visit[Any]], Visit[Any] | None]


class Meddled(InProcess):
    """Clients whose answers are changed on their way, or lost (None)."""

    change: Change = staticmethod(lambda exchange, visit: visit)

    def visits(self, exchange: Exchange, rng: Streams) -> Iterator[Visit[Any]]:
        for visit in super().visits(exchange, rng):
            changed = self.change(exchange, visit)
            if changed is not None:
                yield changed


def looped(settings: dict[str, Any], change: Change | None = None) -> tuple[Loop, list[dict]]:
    """A run without files: the loop at its end, and what it noted of clients."""
    prepared = prepare(load_experiment("quickstart", settings))
    federation = Meddled(prepared.workspace)
    if change is not None:
        federation.change = change  # type: ignore[method-assign]
    lines: list[dict] = []
    experiment = prepared.experiment
    loop = Loop(
        prepared.workspace.method,
        federation,
        evaluation_of(prepared),
        Streams(experiment.seed),
        privacy=experiment.privacy,
        on_client=lines.append,
        on_round=lambda line, weights: lines.append(line),
    )
    try:
        loop.run()
    finally:
        looped.lines = lines  # type: ignore[attr-defined]
    return loop, lines


def assert_same_filter(one: Loop, other: Loop) -> None:
    for name in ("histogram", "softmax", "tally", "likelihood"):
        first, second = getattr(one.state.ledger, name), getattr(other.state.ledger, name)
        assert first.any()
        assert np.abs(first - second).max() < 1e-9
    assert np.abs(one.state.mixture - other.state.mixture).max() < 1e-9


def test_sum_only_gives_the_same_filter() -> None:
    (plain, before), (private, after) = looped(PLAIN), looped(SUM)
    assert_same_filter(plain, private)
    # Keys, letters, shares and words for numbers are counted too.
    for way in ("bytes_up", "bytes_down"):
        assert before[-1][way] + 1000 < after[-1][way]


def leave(*clients: int) -> Change:
    """These take part in every step but the method's own training."""

    def change(exchange: Exchange, visit: Visit[Any]) -> Visit[Any] | None:
        gone = exchange.message.kind == "train" and visit.reply.client in clients
        return None if gone else visit

    return change


def test_two_dropouts_after_their_shares() -> None:
    plain, _ = looped(PLAIN, leave(1, 4))
    private, lines = looped(SUM, leave(1, 4))
    assert_same_filter(plain, private)
    assert sorted(lines[-1]["missing"]) == [1, 4]


def test_three_of_six_are_too_few() -> None:
    with pytest.raises(TooFew, match="3 of 6 clients answered, 4 have to"):
        looped({**SUM, "method.filter.debias": "none", "rounds": 3}, leave_all_but(0, 1, 2))
    lines = looped.lines  # type: ignore[attr-defined]
    assert any("no_sum" in line for line in lines)


def leave_all_but(*clients: int) -> Change:
    def change(exchange: Exchange, visit: Visit[Any]) -> Visit[Any] | None:
        own = exchange.message.kind in ("filter", "train")
        return None if own and visit.reply.client not in clients else visit

    return change


def test_the_server_sees_words_and_no_totals() -> None:
    seen: list[np.ndarray] = []

    def look(exchange: Exchange, visit: Visit[Any]) -> Visit[Any]:
        if "histogram" in visit.reply.payload:
            seen.append(visit.reply.payload["histogram"])
        return visit

    looped(SUM, look)
    assert len(seen) == 6 * 4  # one exchange before the first filtered round, then three rounds
    words = np.stack(seen)
    assert words.shape[1:] == (2, 64)
    # Counts of 40 samples would leave nearly all words 0.
    assert (words == 0).mean() < 0.001
    assert abs(words.mean() / 2**32 - 0.5) < 0.05


def test_a_sum_that_nobody_can_have_is_refused() -> None:
    def lie(exchange: Exchange, visit: Visit[Any]) -> Visit[Any]:
        reply = visit.reply
        if exchange.message.kind != "bias" or reply.client != 3:
            return visit
        softmax = reply.payload["softmax"].copy()
        softmax[0] = (softmax[0] + 2**28) % 2**32  # a large number more of every class
        return replace(visit, reply=replace(reply, payload={**reply.payload, "softmax": softmax}))

    loop, lines = looped(SUM, lie)
    assert any("the sum is impossible: softmax" in line.get("no_sum", "") for line in lines)
    assert loop.state.ledger.softmax.sum() == pytest.approx(loop.state.ledger.histogram.sum())


def test_a_reply_that_is_refused_is_a_dropout() -> None:
    def broken(exchange: Exchange, visit: Visit[Any]) -> Visit[Any]:
        reply = visit.reply
        if exchange.message.kind != "train" or reply.client != 2:
            return visit
        weights = {"net": {k: v * float("nan") for k, v in reply.weights["net"].items()}}
        return replace(visit, reply=replace(reply, weights=weights))

    plain, _ = looped(PLAIN, broken)
    private, lines = looped(SUM, broken)
    assert_same_filter(plain, private)
    assert any("not finite" in line.get("refused", "") for line in lines)


def test_a_far_out_update_is_found_before_the_sum_is_told() -> None:
    asked: list[tuple[str, int]] = []

    def huge(exchange: Exchange, visit: Visit[Any]) -> Visit[Any]:
        reply = visit.reply
        asked.append((exchange.message.kind, len(exchange.clients)))
        if exchange.message.kind != "train" or reply.client != 2:
            return visit
        weights = {"net": {k: v * 1e6 for k, v in reply.weights["net"].items()}}
        return replace(visit, reply=replace(reply, weights=weights))

    plain, _ = looped(PLAIN, huge)
    asked.clear()
    private, lines = looped(SUM, huge)
    assert any("its update has norm" in line.get("refused", "") for line in lines)
    # After two exchanges before the first filtered round six train, then the five others once
    # more; only these five tell their sum.
    steps = [each for each in asked if each[0] in ("train", "privacy shares")][12:]
    told = [("privacy shares", 5)] * 5
    assert steps[:16] == [("train", 6)] * 6 + [("train", 5)] * 5 + told
    assert private.state.ledger.tally[0].sum() == plain.state.ledger.tally[0].sum()


def run(out: Path, settings: dict[str, Any], workers: int = 0) -> feddiv.Run:
    return feddiv.run("quickstart", settings, out=out, workers=workers)


@pytest.mark.parametrize("chosen", ["sum_only", "dp"])
def test_workers_give_the_same_bits(tmp_path: Path, chosen: str) -> None:
    settings = {**SMALL, "rounds": 3, "privacy.filter": chosen}
    one, two = run(tmp_path / "1", settings), run(tmp_path / "2", settings, workers=2)
    assert one.summary["model_hash"] == two.summary["model_hash"]
    assert one.summary["privacy"] == two.summary["privacy"]


@pytest.mark.parametrize("chosen", ["sum_only", "dp"])
def test_a_run_that_is_taken_up_has_the_same_bits(tmp_path: Path, chosen: str) -> None:
    settings = {**SMALL, "privacy.filter": chosen, "privacy.uploads": 4}
    whole = run(tmp_path / "whole", settings)
    run(tmp_path / "parts", {**settings, "rounds": 3})
    parts = feddiv.resume(tmp_path / "parts", ["rounds=4"], workers=0)
    assert parts.summary["model_hash"] == whole.summary["model_hash"]
    assert parts.summary["privacy"] == whole.summary["privacy"]


def test_counts_of_held_out_samples_are_summed_too(tmp_path: Path) -> None:
    held_out = {"evaluation.name": "held_out", "rounds": 3, "data.images": 360}
    plain = run(tmp_path / "1", {**PLAIN, **held_out})
    private = run(tmp_path / "2", {**SUM, **held_out})
    names = ("held_out_accuracy", "believed_accuracy", "believed", "per_class_accuracy")
    for one, other in zip(plain.rounds, private.rounds, strict=True):
        assert [one[name] for name in names] == [other[name] for name in names]
        assert one["held_out_true_accuracy"] == other["held_out_true_accuracy"]
    assert plain.rounds[0]["believed"] is None


def test_dp_says_what_was_spent(tmp_path: Path) -> None:
    finished = run(tmp_path / "run", {**SMALL, "privacy.filter": "dp", "privacy.uploads": 10})
    said = json.loads((tmp_path / "run" / "summary.json").read_text())["privacy"]
    assert said["covered"] == ["histogram", "softmax"]
    assert "weights" in said["not_covered"]
    # An upload before the first filtered round and three in rounds: 4 of 10 of each total.
    assert said["most_uploads"] == 4
    assert said["epsilon"] == 8.0
    assert 0.55 * 8 < said["epsilon_spent"] < 0.65 * 8
    assert finished.summary["filter"]["f1"] > 0


def test_dp_keeps_sums_possible() -> None:
    settings = {**SMALL, "privacy.filter": "dp"}
    loop, lines = looped(settings)
    ledger = loop.state.ledger
    assert ledger.histogram.min() >= -1e-9
    assert ledger.histogram.sum() == pytest.approx(sum(loop.state.sizes.values()))
    assert ledger.softmax.min() >= -1e-9
    assert not any("refused" in line for line in lines)
    # What the server was told is noisy: nobody has counts below zero.
    assert loop.cut.accounts.totals["histogram"].min() < -1


def test_dp_with_filters_of_one_round_only() -> None:
    settings = {**SMALL, "privacy.filter": "dp", "method.filter.members": "round"}
    ledger = looped(settings)[0].state.ledger
    assert ledger.histogram.min() >= -1e-9
    assert ledger.histogram.sum() == pytest.approx(240)

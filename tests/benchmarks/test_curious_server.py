"""What the curious server makes of a client's numbers, by hand and in a small game."""

import numpy as np
import pytest
from curious_server import (
    Game,
    Seen,
    as_numbers,
    class_balance_errors,
    noise_rate_errors,
)

from feddiv.config.reading import load_experiment
from feddiv.core.randomness import Streams
from feddiv.federation.carrying import carriage_of
from feddiv.federation.federation import Absence
from feddiv.federation.in_process import InProcess
from feddiv.methods.contract import Declared, Exchange, Kind, Message, Moment
from feddiv.privacy.sum_client import BITS
from feddiv.runs.prepare import prepare

MIXTURE = np.array([-6.0, 6.0, 0.5, 0.5, 0.5, 0.5])


def test_noise_rates_by_hand() -> None:
    histogram = np.zeros(64)
    histogram[8], histogram[56] = 6.0, 2.0  # at -5.875 and 6.125: 2 of 8 look wrong
    tally = np.array([[5.0, 3.0], [4.0, 3.0], [0.0, 0.0]])  # 7 of 8 are kept
    seen = Seen(8, {"histogram": histogram, "tally": tally, "trusted": np.array(6.0)})
    errors = noise_rate_errors({0: seen}, MIXTURE, {0: 0.25})
    assert errors["histogram"] == pytest.approx(0.0, abs=1e-6)
    assert errors["tally"] == pytest.approx(0.125)
    assert errors["trusted"] == pytest.approx(0.0)
    assert errors["blind"] == 0.0  # one client: the mean is its own
    two = noise_rate_errors({0: seen, 1: Seen(8)}, MIXTURE, {0: 0.25, 1: 0.75})
    assert two["blind"] == pytest.approx(0.25)


def test_class_balance_by_hand() -> None:
    notes = {0: Seen(8, {"tally": np.array([[6.0, 2.0]] * 3), "softmax": np.array([4.0, 4.0])})}
    errors = class_balance_errors(notes, {0: np.array([6, 2])})
    assert errors == {"blind": 0.25, "tally": 0.0, "predictions": 0.25}


def test_changes_add_up_and_of_everything_else_the_newest_counts() -> None:
    change, newest = Declared((2,), pooled="change"), Declared(())
    kind, seen = Kind({"softmax": change, "trusted": newest}), Seen(6)
    for numbers in ([2.0, 4.0], [-1.0, 1.0]):
        payload = {"softmax": np.array(numbers), "trusted": np.array(numbers[0])}
        seen = seen.added(payload, kind, Message("train"))
    assert seen.entries["softmax"].tolist() == [1.0, 5.0]
    assert seen.entries["trusted"] == -1.0


def test_masked_words_are_read_as_numbers_of_their_scale() -> None:
    kind = Kind({"softmax": Declared((2,), pooled="change")})
    minus_one_and_two = np.array([[2.0**32 - 1, 0.0], [2.0**32 - 4, 8.0]])  # in quarters
    sent = Message("train", payload={BITS: np.array([2.0])})
    read = as_numbers({"softmax": minus_one_and_two}, kind, sent)
    assert read["softmax"].tolist() == [-1.0, 2.0]


def game(**changed: object) -> Game:
    """On clients that were asked once, by a fresh model."""
    settings = {"data.images": 80, "clients.count": 4, "clients.fraction": 1.0, "train.epochs": 1}
    prepared = prepare(load_experiment("quickstart", {**settings, **changed}))
    method, rng = prepared.workspace.method, Streams(0).at(round=1)
    federation = InProcess(prepared.workspace)
    state = method.begin(lambda name: federation.make_model(name, rng), federation.facts, rng)
    exchange = method.plan(state, Moment("train", 1), rng)
    assert exchange is not None
    kind = method.kinds(federation.facts)["train"]
    asked = Exchange((0, 1, 2, 3), exchange.message)
    privacy = prepared.workspace.privacy
    carriage = carriage_of(method, federation, asked, kind, rng, privacy, lambda line: None)
    notes = {}
    for visit in carriage.visits():
        assert not isinstance(visit, Absence)
        reply, sent = visit.reply, carriage.exchange.message
        notes[reply.client] = Seen(reply.samples).added(reply.payload, kind, sent)
    return Game(prepared, exchange.message, notes, rng)


@pytest.mark.slow
def test_without_privacy_a_server_that_knows_the_rest_always_knows() -> None:
    played = game().played(3)
    assert played["knows the rest"] == 1.0
    assert 0 <= played["knows the sample"] <= 1


@pytest.mark.slow
@pytest.mark.parametrize("privacy", ["sum_only", "dp"])
def test_with_a_private_filter_it_does_not(privacy: str) -> None:
    played = game(**{"privacy.filter": privacy, "privacy.epsilon": 0.1}).played(8)
    assert played["knows the rest"] < 0.9

"""The round loop with a method of a few lines, on the real federation."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from tests.conftest import remembered

from feddiv.core.randomness import Streams
from feddiv.data import Dataset, Draw
from feddiv.federation.in_process import InProcess
from feddiv.federation.workspace import Workspace
from feddiv.learning.average import StateDict, Weights
from feddiv.learning.train import TrainOptions
from feddiv.methods.contract import (
    Budget,
    Client,
    Declared,
    Diary,
    Exchange,
    Facts,
    Kind,
    Message,
    Method,
    MethodOptions,
    Moment,
    Replies,
    Reply,
    Stage,
    Visit,
)
from feddiv.nets import ModelOptions
from feddiv.runs.evaluate import CentralEvaluation
from feddiv.runs.loop import Loop


@dataclass(frozen=True)
class Tally:
    net: StateDict
    answers: tuple[float, ...] = ()


class Census(Method[Tally, int]):
    """Clients tell how often they have been asked before; client `liar` says NaN."""

    name, summary, paper = "census", "", ""
    Options = MethodOptions

    def __init__(self, liar: int | None = None) -> None:
        super().__init__(MethodOptions(name="census"), TrainOptions(), Budget(7, 0.4, 2))
        self.liar, self.events = liar, []
        self.missing: list[list[int]] = []

    def stages(self) -> tuple[Stage, ...]:
        return (Stage("early", 2, 2.5), Stage("skipped", 0), Stage("late", 2))

    def begin(self, make_model: Callable[[str], StateDict], facts: Facts, rng: Streams) -> Tally:
        self.events.append(("begin", rng))
        return Tally(make_model("net"))

    def plan(self, state: Tally, moment: Moment, rng: Streams) -> Exchange | None:
        self.events.append(("plan", moment, rng))
        late = moment.stage == "late"
        plans = [(1,)] if late else [(2, 0), (0, 1)]
        if moment.exchange >= len(plans):
            return None
        kind = f"{moment.stage} {moment.exchange}"
        return Exchange(plans[moment.exchange], Message(kind, {"net": state.net}))

    def visit(
        self, client: Client, memory: int | None, received: Message, rng: Streams
    ) -> Visit[int]:
        self.events.append(("visit", client.id, received.kind, rng))
        asked = memory or 0
        answer = np.nan if client.id == self.liar else float(asked)
        reply = Reply(
            client.id,
            len(client),
            payload={"asked": np.array(answer)},
            metrics={"divergence": float(client.id)},
        )
        return Visit(reply, asked + 1, {"clean": len(client)})

    def merge(self, state: Tally, exchange: Exchange, replies: Replies) -> Tally:
        answers = tuple(float(reply.payload["asked"]) for reply in replies)
        self.events.append(("merge", exchange.message.kind))
        self.missing.append(list(replies.missing))
        return replace(state, answers=state.answers + answers)

    def weights(self, state: Tally) -> Weights:
        return {"net": state.net}

    def kinds(self, facts: Facts) -> Mapping[str, Kind]:
        reply = {"asked": Declared(()), "divergence": Declared((), low=0, metric=True)}
        names = ("early 0", "early 1", "late 0")
        return {name: Kind(reply, models=()) for name in names}

    def records(self, state: Tally) -> Diary:
        return {"answers": list(state.answers)}


@dataclass
class Ran:
    method: Census
    federation: InProcess
    loop: Loop
    rounds: list[dict[str, Any]]
    clients: list[dict[str, Any]]


@pytest.fixture
def run(small_data: Dataset, small_draw: Draw) -> Callable[..., Ran]:
    def finished(liar: int | None = None) -> Ran:
        method = Census(liar)
        workspace = Workspace(method, small_data, small_draw, ModelOptions(name="mlp"))
        federation = InProcess(workspace)
        rounds: list[dict[str, Any]] = []
        clients: list[dict[str, Any]] = []
        loop = Loop(
            method,
            federation,
            CentralEvaluation(labels=small_data.test.labels.numpy(), classes=3),
            Streams(4),
            on_client=clients.append,
            on_round=lambda line, weights: rounds.append(line),
        )
        loop.run()
        return Ran(method, federation, loop, rounds, clients)

    return finished


def test_order_of_exchanges_and_their_streams(run: Callable[..., Ran]) -> None:
    def at(round: int, exchange: int, client: int = -1) -> Streams:
        return Streams(4, round, exchange, client)

    early = [
        [
            ("plan", Moment("early", turn - 1, 0), at(turn, 0)),
            ("visit", 2, "early 0", at(turn, 0, 2)),
            ("visit", 0, "early 0", at(turn, 0, 0)),
            ("merge", "early 0"),
            ("plan", Moment("early", turn - 1, 1), at(turn, 1)),
            ("visit", 0, "early 1", at(turn, 1, 0)),
            ("visit", 1, "early 1", at(turn, 1, 1)),
            ("merge", "early 1"),
            ("plan", Moment("early", turn - 1, 2), at(turn, 2)),
        ]
        for turn in (1, 2)
    ]
    late = [
        [
            ("plan", Moment("late", turn - 3, 0), at(turn, 0)),
            ("visit", 1, "late 0", at(turn, 0, 1)),
            ("merge", "late 0"),
            ("plan", Moment("late", turn - 3, 1), at(turn, 1)),
        ]
        for turn in (3, 4)
    ]
    expected = [("begin", at(0, 0)), *(event for turn in early + late for event in turn)]
    assert run().method.events == expected


def test_rounds_spent_and_turns(run: Callable[..., Ran]) -> None:
    ran = run()
    heads = [(line["turn"], line["round"], line["stage"]) for line in ran.rounds]
    # Two turns worth 2.5 rounds each, then two of one round.
    assert heads == [(1, 2.5, "early"), (2, 5, "early"), (3, 6, "late"), (4, 7, "late")]
    assert [type(line["round"]) for line in ran.rounds] == [float, int, int, int]
    assert [turn.round for turn in ran.loop.turns()] == [2.5, 5, 6, 7]


def test_memory_goes_from_visit_to_visit(run: Callable[..., Ran]) -> None:
    ran = run()
    # Turn 1 asks clients 2, 0, then 0, 1; turn 2 the same again; turns 3 and 4 ask client 1.
    assert ran.loop.state.answers == (0, 0, 1, 0, 1, 2, 3, 1, 2, 3)
    assert remembered(ran.federation) == {0: 4, 1: 4, 2: 2}
    assert ran.rounds[0]["answers"] == [0, 0, 1, 0]
    assert [line["missing"] for line in ran.rounds] == [[], [], [], []]


def test_a_refused_reply_is_missing_and_its_memory_does_not_advance(
    run: Callable[..., Ran],
) -> None:
    ran = run(liar=0)
    assert ran.method.missing == [[0], [0], [0], [0], [], []]
    assert [line["missing"] for line in ran.rounds] == [[0, 0], [0, 0], [], []]
    assert remembered(ran.federation) == {1: 4, 2: 2}
    assert ran.loop.state.answers == (0, 0, 1, 1, 2, 3)
    refused = [line for line in ran.clients if "refused" in line]
    assert refused[0] == {
        "turn": 1,
        "round": 2.5,
        "stage": "early",
        "client": 0,
        "kind": "early 0",
        "refused": "asked is not finite",
    }
    assert len(refused) == 4
    assert [line["visits"] for line in ran.rounds] == [2, 2, 1, 1]


def test_a_line_for_every_visit(run: Callable[..., Ran]) -> None:
    ran = run()
    assert len(ran.clients) == 10
    assert ran.clients[1] == {
        "turn": 1,
        "round": 2.5,
        "stage": "early",
        "client": 0,
        "kind": "early 0",
        "samples": 2,
        "divergence": 0.0,
        "clean": 2,
    }


def test_a_line_for_every_round(run: Callable[..., Ran]) -> None:
    ran = run()
    first, last = ran.rounds[0], ran.rounds[-1]
    assert first["visits"] == 4
    assert first["divergence"] == (2 + 0 + 0 + 1) / 4
    assert first["clean"] == 6 + 2 + 2 + 4
    # Up: 8 bytes each for the payload, n_k and the divergence. Down: the mlp in float32,
    # (3+1)·128 + (128+1)·128 + (128+1)·3 numbers.
    assert first["bytes_up"] == 4 * 24
    assert first["bytes_down"] == 4 * 4 * (4 * 128 + 129 * 128 + 129 * 3)
    assert last["bytes_up"] == 24
    assert last["seconds"] >= 0
    assert last["evaluation_seconds"] >= 0


def test_test_accuracy_is_that_of_the_global_model(
    run: Callable[..., Ran], small_data: Dataset
) -> None:
    ran = run()
    said = ran.federation.evaluate({"net": ran.loop.state.net}).argmax(axis=1)
    expected = (said == small_data.test.labels.numpy()).mean()
    assert [line["test_accuracy"] for line in ran.rounds] == pytest.approx([expected] * 4)

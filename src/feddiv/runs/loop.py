"""The one round loop: plan, exchange, merge, evaluate, record."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from feddiv.errors import Diverged
from feddiv.federation.contract import Federation
from feddiv.federation.wire import Refused, check_reply, message_bytes, reply_bytes
from feddiv.learning.average import Weights
from feddiv.methods.contract import Diary, Exchange, Facts, Method, Moment, Reply, Visit
from feddiv.randomness import Streams
from feddiv.runs.evaluate import Evaluation
from feddiv.runs.journal import client_line, round_line

Record = dict[str, Any]


@dataclass(frozen=True)
class Turn:
    """One turn of the loop, as the method's stages lay them out."""

    number: int  # from 1
    moment: Moment
    round: float  # communication rounds spent when the turn is over


@dataclass
class Gathering:
    """The replies of one exchange: taken one by one, checked, counted, written down."""

    federation: Federation
    method: Method[Any, Any]
    exchange: Exchange
    rng: Streams
    note: Callable[[Record], None]
    missing: list[int] = field(default_factory=list)
    visits: list[Visit[Any]] = field(default_factory=list)
    bytes_up: int = 0
    bytes_down: int = 0

    def __iter__(self) -> Iterator[Reply]:
        facts, kind = self.federation.facts, self.exchange.message.kind
        declared = self.method.declares(kind, facts)
        answered: set[int] = set()
        for visit in self.federation.exchange(self.exchange, self.rng):
            reply = visit.reply
            sent = self.exchange.to(reply.client)
            self.bytes_down += message_bytes(sent)
            self.bytes_up += reply_bytes(reply)
            try:
                check_reply(reply, declared, sent, facts.sizes[reply.client])
            except Refused as reason:
                self.note({"client": reply.client, "kind": kind, "refused": str(reason)})
                continue
            answered.add(reply.client)
            self.federation.accept(reply.client, visit.memory)
            self.visits.append(Visit(_light(reply), None, visit.diary))
            self.note(client_line(kind, reply, visit.diary))
            yield reply
        self.missing = [client for client in self.exchange.clients if client not in answered]


def _light(reply: Reply) -> Reply:
    """The reply without its weights, which nobody needs after the merge."""
    return Reply(reply.client, reply.samples, metrics=reply.metrics)


class Loop:
    """A run in progress. `state` and the federation's memories are all there is to it."""

    def __init__(
        self,
        method: Method[Any, Any],
        federation: Federation,
        evaluation: Evaluation,
        rng: Streams,
        *,
        on_client: Callable[[Record], None],
        on_round: Callable[[Record, Weights], None],
    ) -> None:
        self.method, self.federation, self.evaluation, self.rng = (
            method,
            federation,
            evaluation,
            rng,
        )
        self.on_client, self.on_round = on_client, on_round
        facts: Facts = federation.facts
        self.state = method.begin(
            lambda name: federation.make_model(name, rng), facts, rng.at(round=0)
        )

    def turns(self) -> Iterator[Turn]:
        """All turns of the run in order."""
        number, spent = 0, 0.0
        for stage in self.method.stages():
            for turn in range(stage.turns):
                number, spent = number + 1, spent + stage.rounds
                yield Turn(number, Moment(stage.name, turn), spent)

    def run(self) -> None:
        """Every turn to the end."""
        for turn in self.turns():
            self.take(turn)

    def take(self, turn: Turn) -> None:
        """One turn: exchanges until the method says it is over, then evaluation and record."""
        started = time.perf_counter()
        gatherings: list[Gathering] = []
        while True:
            moment = Moment(turn.moment.stage, turn.moment.turn, len(gatherings))
            rng = self.rng.at(round=turn.number, exchange=moment.exchange)
            exchange = self.method.plan(self.state, moment, rng)
            if exchange is None:
                break
            gathering = Gathering(
                self.federation, self.method, exchange, rng, lambda line: self._note(turn, line)
            )
            self.state = self.method.merge(self.state, exchange, gathering)
            gatherings.append(gathering)
        if gatherings and not any(gathering.visits for gathering in gatherings):
            raise Diverged(
                f"no reply of turn {turn.number} could be used (clients.jsonl says why): "
                "try a smaller train.lr"
            )
        worked = time.perf_counter()
        weights = self.method.weights(self.state)
        measures: Diary = self.evaluation.measure(self.federation.evaluate(weights))
        line = {
            **_head(turn),
            **measures,
            **round_line([visit for gathering in gatherings for visit in gathering.visits]),
            **self.method.records(self.state),
            "missing": [client for gathering in gatherings for client in gathering.missing],
            "bytes_up": sum(gathering.bytes_up for gathering in gatherings),
            "bytes_down": sum(gathering.bytes_down for gathering in gatherings),
            "seconds": worked - started,
            "evaluation_seconds": time.perf_counter() - worked,
        }
        self.on_round(line, weights)

    def _note(self, turn: Turn, line: Record) -> None:
        self.on_client({**_head(turn), **line})


def _head(turn: Turn) -> Record:
    number = float(np.round(turn.round, 6))
    whole = int(number) if number.is_integer() else number
    return {"turn": turn.number, "round": whole, "stage": turn.moment.stage}

"""The one round loop: plan, exchange, merge, evaluate, record."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from feddiv.core.arrays import Weights
from feddiv.core.errors import Diverged, TooFew, UserError
from feddiv.core.randomness import Streams
from feddiv.defence.defence import Defence
from feddiv.defence.directions import Directions
from feddiv.federation.accounts import Accounts
from feddiv.federation.federation import Federation
from feddiv.methods.contract import Facts, Method, Moment
from feddiv.privacy.options import PrivacyOptions
from feddiv.privacy.sum_server import NoSum
from feddiv.runs.evaluate import Evaluation
from feddiv.runs.exchange import Exchanger, ServerPart
from feddiv.runs.journal import Record, round_line
from feddiv.runs.replies import Refusal, Tally
from feddiv.runs.standardise import Standard, agreed_standard


@dataclass(frozen=True)
class Turn:
    """One turn of the loop, as the method's stages lay them out."""

    number: int  # from 1
    moment: Moment
    round: float  # communication rounds spent when the turn is over
    hands_over: bool = False


def turns_of(method: Method[Any, Any]) -> Iterator[Turn]:
    """All turns that a method plans, in order."""
    number, spent = 0, 0.0
    for stage in method.stages():
        for turn in range(stage.turns):
            number, spent = number + 1, spent + stage.rounds
            yield Turn(number, Moment(stage.name, turn), spent, stage.hands_over)


@dataclass(frozen=True)
class Cut:
    """Where a run stands between two exchanges: with the clients' memories, all there is to it."""

    state: Any
    turn: int = 1  # the turn that is under way
    tallies: tuple[Tally, ...] = ()  # of its exchanges so far
    seconds: float = 0.0  # spent on them
    attempt: int = 0  # how often the turn was begun before and given up
    # What clients have said in all; None in a run that an earlier version began without.
    accounts: Accounts | None = None
    norms: tuple[float, ...] = ()  # of the last updates, by which single ones are judged
    # Up to which turn clients are not asked whose update was that of no honest one.
    barred: Mapping[int, int] = field(default_factory=dict)
    directions: Directions = field(default_factory=Directions)  # of updates: robust.weights=aligned
    standard: Standard | None = None  # what clients standardise their features by


class Loop:
    """A run in progress. Between two exchanges `cut` and the federation's memories are all of it.

    `on_cut` is told of every such point; `start` is the cut of an earlier loop to go on from.
    """

    def __init__(
        self,
        method: Method[Any, Any],
        federation: Federation,
        evaluation: Evaluation,
        rng: Streams,
        *,
        defence: Defence | None = None,
        privacy: PrivacyOptions | None = None,
        standardise: bool = False,
        start: Cut | None = None,
        on_client: Callable[[Record], None],
        on_round: Callable[[Record, Weights], None],
        on_cut: Callable[[Cut], None] = lambda cut: None,
    ) -> None:
        self.method, self.federation, self.evaluation, self.rng = (
            method,
            federation,
            evaluation,
            rng,
        )
        self.defence, self.privacy = defence or Defence(), privacy or PrivacyOptions()
        self.on_client, self.on_round, self.on_cut = on_client, on_round, on_cut
        if start is None:
            facts: Facts = self.defence.facts(federation.facts)
            start = Cut(
                method.begin(lambda name: federation.make_model(name, rng), facts, rng.at(round=0)),
                accounts=Accounts(),
                standard=self._standard() if standardise else None,
            )
        if start.standard is not None:
            federation.standardise(start.standard.scaling)
        self.cut = start
        # False while the clients' memories have moved on and `cut` has not yet: a checkpoint
        # that was written then would not fit together.
        self.consistent = True
        self._refusals: list[Refusal] = []  # of the turn that is under way
        self._no_sum = ""  # why a secure sum of it was given up

    def _standard(self) -> Standard:
        """What clients agree to standardise their features by, before the first turn."""
        before = Turn(0, Moment("hello", 0), 0.0)
        return agreed_standard(
            self.federation,
            self.defence,
            self.rng.at(round=0),
            lambda line: self._note(before, line),
        )

    @property
    def state(self) -> Any:
        """The server's state."""
        return self.cut.state

    def turns(self) -> Iterator[Turn]:
        """All turns of the run in order."""
        return turns_of(self.method)

    def run(self) -> None:
        """Every turn that is left, to the end."""
        turns = list(self.turns())
        for turn in turns[self.cut.turn - 1 :]:
            self.take(turn, last=turn is turns[-1])

    def take(self, turn: Turn, *, last: bool = False) -> None:
        """One turn: exchanges until the method says it is over, then evaluation and record."""
        self._welcome()
        self._refusals, self._no_sum = [], ""
        start, mark = self.cut, self.federation.mark()
        over, failures = False, 0
        while not over:
            over = not self._exchange(turn, cut_here=mark is None)
            if self._enough(over=over):
                continue
            over, failures = False, failures + 1
            self._refusals = []
            self._note(turn, {"repeated": failures, "missing": self._absent()})
            spent, again = self.cut.seconds, start.attempt + failures
            self.federation.rewind(mark)
            self._cut(replace(start, seconds=spent, attempt=again))
            self.federation.regroup(failures)
        tallies, seconds = self.cut.tallies, self.cut.seconds
        if tallies and not any(tally.visits for tally in tallies):
            raise self._unusable(turn)
        started = time.perf_counter()
        weights = self.method.weights(self.state)
        measures = self.evaluation.nothing()
        if last or self.evaluation.due(turn.number):
            rng = self.rng.at(round=turn.number, exchange=len(tallies))
            measures = self.evaluation.measure(
                self.method, self.federation, self.state, rng, lambda line: self._note(turn, line)
            )
        costs: list[Tally | Standard] = [*tallies]
        if self.cut.standard is not None and turn.number == 1:
            costs.append(self.cut.standard)
        line = {
            **_head(turn),
            **measures,
            **round_line([visit for tally in tallies for visit in tally.visits]),
            **self.method.records(self.state),
            "missing": [client for tally in tallies for client in tally.missing],
            "bytes_up": sum(each.bytes_up for each in costs),
            "bytes_down": sum(each.bytes_down for each in costs),
            "seconds": seconds,
            "evaluation_seconds": time.perf_counter() - started,
        }
        self.on_round(line, weights)
        self.consistent = False
        self.federation.mark()  # what `save` writes from now on
        cut = self.cut
        self._cut(replace(cut, turn=turn.number + 1, tallies=(), seconds=0.0, attempt=0))

    def _unusable(self, turn: Turn) -> Exception:
        """Why a turn brought nothing; numbers that are not finite mean steps that are too large."""
        refusals = self._refusals
        if self._no_sum:
            return TooFew(f"turn {turn.number}: no secure sum could be made: {self._no_sum}")
        if not refusals:
            return Diverged(f"no reply of turn {turn.number} could be used; clients.jsonl says why")
        first, others = refusals[0], len(refusals) - 1
        why = f"client {first.client}: {first.why}"
        if not any(refusal.declared for refusal in refusals):
            more = f" (and {others} more)" if others else ""
            return UserError(
                f"method.name={self.method.options.name}: replies to {first.kind!r} are not what "
                f"kinds() declares; {why}{more}"
            )
        more = f" ({others} more in clients.jsonl)" if others else ""
        exploded = "not finite" in first.why or "its update has norm" in first.why
        hint = ": try a smaller train.lr" if exploded else ""
        return Diverged(f"no reply of turn {turn.number} could be used; {why}{more}{hint}")

    def _welcome(self) -> None:
        """Clients that have joined take part from the next turn on."""
        if sizes := self.federation.newcomers():
            self.consistent = False
            self.federation.mark()
            state = self.method.joined(self.cut.state, self.defence.sizes(sizes))
            self._cut(replace(self.cut, state=state))

    def _enough(self, *, over: bool = False) -> bool:
        """Whether enough clients have answered in this turn, so far or now that it is over.

        In a hand-over each exchange asks one client only: these are counted together when the
        turn is over.
        """
        tallies = self.cut.tallies
        counts = [(len(tally.visits), tally.asked) for tally in tallies if tally.asked > 1]
        single = [tally for tally in tallies if tally.asked == 1]
        if over and single:
            counts.append((sum(len(tally.visits) for tally in single), len(single)))
        return all(self.federation.enough(*count) for count in counts)

    def _absent(self) -> list[int]:
        return sorted({client for tally in self.cut.tallies for client in tally.missing})

    def _exchange(self, turn: Turn, *, cut_here: bool) -> bool:
        """The next exchange of the turn; False when there is none.

        `cut_here` says whether a checkpoint may be written after it: not where a turn may have to
        be repeated from its beginning.
        """
        started, cut = time.perf_counter(), self.cut
        moment = Moment(turn.moment.stage, turn.moment.turn, len(cut.tallies))
        rng = self.rng.at(round=turn.number, exchange=moment.exchange)
        if cut.attempt:  # others may be drawn than those who did not answer
            rng = rng.within(f"attempt {cut.attempt}")
        if self.defence.robust.substitutes:
            known = self.federation.facts.sizes
            self.method.passed_over = cut.directions.useless(known, self.defence)
        exchange = self.method.plan(cut.state, moment, rng)
        if exchange is None:
            return False
        exchanger = Exchanger(
            self.method,
            self.federation,
            self.defence,
            self.privacy,
            lambda line: self._note(turn, line),
            turn.number,
            turn.hands_over,
        )
        before = ServerPart(cut.state, cut.accounts, cut.norms, cut.barred, cut.directions)
        introduced = Tally()
        if self._introduces(turn, moment.exchange):
            before, introduced = exchanger.introduce(exchange, before, rng)
        try:
            after, replies = exchanger.make(exchange, before, rng)
            replies.bytes_up += introduced.bytes_up
            replies.bytes_down += introduced.bytes_down
            tally = replies.tally
            self._refusals += replies.refusals
        except NoSum as reason:  # as if nobody had answered
            self._note(turn, {"kind": exchange.message.kind, "no_sum": str(reason)})
            after, tally, self._no_sum = before, Tally(missing=exchange.clients), str(reason)
        seconds = cut.seconds + time.perf_counter() - started
        self.consistent = False
        self.federation.commit()
        self.cut = replace(
            cut,
            state=after.state,
            tallies=(*cut.tallies, tally),
            seconds=seconds,
            accounts=after.accounts,
            norms=after.norms,
            barred=after.barred,
            directions=after.directions,
        )
        if cut_here:
            self.on_cut(self.cut)
        self.consistent = True
        return True

    def _introduces(self, turn: Turn, exchange: int) -> bool:
        """Whether all clients are compared before this exchange, the first of a hand-over."""
        every = self.defence.robust.introduces_every(len(self.federation.facts.sizes))
        return turn.hands_over and bool(every) and not exchange and not turn.moment.turn % every

    def _cut(self, cut: Cut) -> None:
        self.cut = cut
        self.on_cut(cut)
        self.consistent = True

    def _note(self, turn: Turn, line: Record) -> None:
        self.on_client({**_head(turn), **line})


def _head(turn: Turn) -> Record:
    spent = float(np.round(turn.round, 6))
    rounds = int(spent) if spent.is_integer() else spent  # 3 and not 3.0
    return {"turn": turn.number, "round": rounds, "stage": turn.moment.stage}

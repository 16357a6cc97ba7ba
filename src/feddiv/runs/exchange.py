"""One exchange: visits, checks, merge, and a look at the model before the loop commits to it."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from feddiv.core.errors import Diverged
from feddiv.core.randomness import Streams
from feddiv.defence.defence import (
    BARRED,
    FAR_OUT,
    LAST,
    RECENT,
    STANDS_OUT,
    Defence,
    barred,
    standing_out,
    usual_norm,
)
from feddiv.defence.directions import Directions
from feddiv.defence.replies import DefendedReplies, introduced
from feddiv.federation.accounts import Accounts
from feddiv.federation.carrying import carriage_of
from feddiv.federation.federation import Federation
from feddiv.federation.update_norm import update_norm
from feddiv.methods.common import LARGEST_NORM
from feddiv.methods.contract import Exchange, Kind, Method, declared_kind
from feddiv.privacy.options import PrivacyOptions
from feddiv.privacy.totals import pooled
from feddiv.runs.journal import Record
from feddiv.runs.replies import CheckedReplies, Tally

# Sites know these names: they tell a repeat, and what goes before a hand-over, from every attempt
# at a turn.
AGAIN, INTRODUCTION = "again", "introduction"
NOT_FINITE = "the global model's outputs are not finite: try a smaller train.lr"


@dataclass(frozen=True)
class ServerPart:
    """What the server has before an exchange, and after it.

    `accounts` is what clients have said in all, None in a run that an earlier version began without
    them; `norms` are those of the last updates, by which single ones are judged; `barred` says up
    to which turn clients are not asked whose update was that of no honest one; `directions` where
    their updates have pointed.
    """

    state: Any
    accounts: Accounts | None = None
    norms: tuple[float, ...] = ()
    barred: Mapping[int, int] = field(default_factory=dict)
    directions: Directions = field(default_factory=Directions)


class FarOut(Exception):
    """Updates of no honest client, found before a secure sum was told."""

    def __init__(self, blamed: dict[int, str], replies: CheckedReplies) -> None:
        super().__init__()
        self.blamed, self.replies = blamed, replies


@dataclass
class Exchanger:
    """Makes the exchanges that a method plans in a turn; `record` is told of every visit."""

    method: Method[Any, Any]
    federation: Federation
    defence: Defence
    privacy: PrivacyOptions
    record: Callable[[Record], None]
    turn: int
    hands_over: bool = False  # the turn's stage
    _lines: list[Record] = field(default_factory=list)

    def make(
        self, exchange: Exchange, before: ServerPart, rng: Streams
    ) -> tuple[ServerPart, CheckedReplies]:
        """What the server has after it. Memories are staged, and committed by the caller.

        If the merged model is of no use, or an update is that of no honest client, the exchange is
        made again, without those whose updates stand out and with a look at every single model. The
        others' replies are the same again. So that a liar does not cost everybody double in every
        turn, who sent such an update is not asked in the next ones. Of a secure sum that has to be
        found out before the sum is told: that of all and that of all but one would give the one
        away.
        """
        kind = declared_kind(self.method, self.federation.facts, exchange)
        exchange = self._without_barred(exchange, before)
        # A model that is handed on alone is tried by itself.
        single = len(exchange.clients) == 1
        usual = _usual_before(exchange, before)
        try:
            try:
                after, replies = self._merged(exchange, kind, before, rng, suspicious=single)
                blamed = None if single else self._blamed(kind, usual, after, replies)
                first = replies
            except FarOut as found:
                first, blamed = found.replies, found.blamed
            if blamed is not None:
                self.federation.discard()
                self._lines = []
                after, replies = self._merged(exchange, kind, before, rng, blamed, suspicious=True)
                replies.bytes_up += first.bytes_up
                replies.bytes_down += first.bytes_down
                far_out = standing_out(first.norms, FAR_OUT, usual)
                after = replace(after, barred=barred(before.barred, far_out, self.turn))
                if not self._sound(after):
                    raise Diverged(NOT_FINITE)
        except BaseException:
            self.federation.discard()
            raise
        finally:
            self._write()
        return after, replies

    def introduce(
        self, exchange: Exchange, before: ServerPart, rng: Streams
    ) -> tuple[ServerPart, Tally]:
        """What the server knows when all clients have done what a hand-over asks its first to do.

        In a hand-over each update begins where another client's ended, so directions tell nothing.
        Here they begin at one model. Nothing but directions is kept, of clients' memories neither.
        """
        facts = self.federation.facts
        kind = declared_kind(self.method, facts, exchange)
        if not kind.models or (self.privacy.filter != "none" and pooled(kind)):
            return before, Tally()  # statistics that are private are given out once
        everyone = self.method.introduction(before.state, exchange, tuple(sorted(facts.sizes)))
        lines: list[Record] = []
        visits = self.federation.visits(everyone, rng.within(INTRODUCTION))
        replies = CheckedReplies(self.federation, everyone, kind, visits, lines.append)
        try:
            directions = introduced(replies, everyone, before.directions)
        finally:
            self.federation.discard()
        agreements = directions.agreements(facts.sizes, self.defence)
        for line in lines:
            if "refused" in line or "missing" in line:  # the others have no line of their own
                self.record({**line, "introduction": True})
        for client in [client for client in replies.norms if client in agreements]:
            agrees = round(agreements[client], 4)
            line = {"client": client, "kind": exchange.message.kind, "introduced": agrees}
            self.record(line)
        tally = Tally(bytes_up=replies.bytes_up, bytes_down=replies.bytes_down)
        return replace(before, directions=directions), tally

    def _without_barred(self, exchange: Exchange, before: ServerPart) -> Exchange:
        """The exchange with those who may be asked.

        In a hand-over everybody is: an update is judged there by those before it, at no cost.
        """
        out = {
            c: until for c in exchange.clients if (until := before.barred.get(c, 0)) >= self.turn
        }
        asked = tuple(client for client in exchange.clients if client not in out)
        if not out or not asked:
            return exchange
        for client, until in out.items():
            why = self.federation.refuse(
                client,
                f"not asked up to turn {until}: the norm of its update in turn {until - BARRED} "
                f"was over {FAR_OUT:g} times the usual one",
            )
            self.record({"client": client, "kind": exchange.message.kind, "refused": why})
        return replace(exchange, clients=asked)

    def _blamed(
        self, kind: Kind, usual: float, after: ServerPart, replies: CheckedReplies
    ) -> dict[int, str] | None:
        """Whom the exchange has to be made again without; None where nothing is wrong with it."""
        if kind.models and not self._sound(after):
            if self.privacy.filter == "sum_only" and pooled(kind):
                raise Diverged(NOT_FINITE)
            return standing_out(replies.norms, STANDS_OUT, usual)
        return standing_out(replies.norms, FAR_OUT, usual) or None

    def _sound(self, after: ServerPart) -> bool:
        return self.federation.outputs_finite(self.method.weights(after.state))

    def _largest(self, exchange: Exchange, before: ServerPart) -> float:
        """The norm up to which an update is taken: of a client alone, by those before it."""
        if len(exchange.clients) > 1:
            return LARGEST_NORM
        usual = usual_norm(before.norms[-LAST:])
        if math.isinf(usual):  # nobody to compare with: the model itself is the measure
            usual = update_norm(exchange.message.weights) or math.inf
        return min(LARGEST_NORM, FAR_OUT * usual)

    def _merged(
        self,
        exchange: Exchange,
        kind: Kind,
        before: ServerPart,
        rng: Streams,
        blamed: Mapping[int, str] | None = None,
        *,
        suspicious: bool,
    ) -> tuple[ServerPart, CheckedReplies]:
        """The exchange without those who are blamed for what it came to before."""
        again = blamed is not None and self.privacy.filter != "none"
        facts, blamed, robust = self.federation.facts, blamed or {}, self.defence.robust
        asked = tuple(client for client in exchange.clients if client not in blamed)
        # Clients work here: each visit is made when `merge` takes its reply.
        carriage = carriage_of(
            self.method,
            self.federation,
            replace(exchange, clients=asked),
            kind,
            # A mask hides one answer only: what is asked again is another question.
            rng.within(AGAIN) if again else rng,
            self.privacy,
            self._lines.append,
        )
        visits = carriage.visits()
        accounts = None if before.accounts is None else before.accounts.opened(kind)
        whole = set(kind.models) == self.method.weights(before.state).keys()
        replies = CheckedReplies(
            self.federation,
            replace(carriage.exchange, clients=exchange.clients),
            carriage.kind,
            visits,
            self._lines.append,
            accounts,
            largest=self._largest(exchange, before),
            sound=self.federation.outputs_finite if suspicious and whole else None,
            blamed=blamed,
        )

        def look() -> None:
            usual = _usual_before(exchange, before)
            if not again and (found := standing_out(replies.norms, FAR_OUT, usual)):
                raise FarOut(found, replies)

        carriage.before_sum = look
        defended = DefendedReplies(
            carriage.merged(replies, accounts),
            self.defence,
            exchange,
            kind,
            sizes=facts.sizes,
            norms=replies.norms,
            recent=before.norms,
            accounts=accounts,
            directions=before.directions,
            introduced=self.hands_over and robust.introduces_every(len(facts.sizes)) > 0,
        )
        state = self.method.merge(before.state, exchange, defended)
        replies.bytes_up += carriage.bytes_up
        replies.bytes_down += carriage.bytes_down
        # What was refused counts for the next measure: where many in a row are far out, it is the
        # model they began with, and the run has to be able to go on from it.
        norms = self.defence.recent(before.norms, [*replies.norms.values(), *replies.too_large])
        for what, clients in (
            ("left_out", defended.left_out),
            ("turned_back", defended.turned_back),
        ):
            for client, why in clients.items():
                self._lines.append({"client": client, "kind": exchange.message.kind, what: why})
        return ServerPart(state, accounts, norms, before.barred, defended.directions), replies

    def _write(self) -> None:
        lines, self._lines = self._lines, []
        for line in lines:
            self.record(line)


def _usual_before(exchange: Exchange, before: ServerPart) -> float:
    """The usual norm of an update until now.

    Of a few updates liars may have sent most. Until more are known, an update that is smaller than
    the model is not far out.
    """
    usual = usual_norm(before.norms)
    if len(before.norms) >= RECENT and usual < math.inf:
        return usual
    least = update_norm(exchange.message.weights) / FAR_OUT
    return max(usual, least) if usual < math.inf else least

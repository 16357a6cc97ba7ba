"""Replies of one exchange on their way to the merge: checked, counted, recorded."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from feddiv.core.arrays import Weights
from feddiv.federation.accounts import Accounts
from feddiv.federation.federation import Absence, Federation
from feddiv.federation.reply_check import Refused, Undeclared, check_reply, check_sender
from feddiv.federation.traffic import message_bytes, reply_bytes
from feddiv.federation.update_norm import update_norm
from feddiv.methods.common import LARGEST_NORM
from feddiv.methods.contract import Exchange, Kind, Message, Reply, Visit
from feddiv.runs.journal import Record, Seen, client_line

NOBODY = -1  # who a reply without a client's number is from


@dataclass(frozen=True)
class Tally:
    """What the loop keeps of one exchange until its round is recorded."""

    visits: tuple[Seen, ...] = ()
    missing: tuple[int, ...] = ()
    bytes_up: int = 0
    bytes_down: int = 0

    @property
    def asked(self) -> int:
        """How many clients were asked."""
        return len(self.visits) + len(self.missing)


@dataclass(frozen=True)
class Refusal:
    """A reply that was not taken, and why; `declared` unless its kind declares something else."""

    client: int
    kind: str
    why: str
    declared: bool


@dataclass
class CheckedReplies:
    """The replies of one exchange: taken one by one from `visits`, checked, counted, recorded."""

    federation: Federation
    exchange: Exchange
    kind: Kind
    visits: Iterator[Visit[Any] | Absence]
    record: Callable[[Record], None]
    accounts: Accounts | None = None
    sound: Callable[[Weights], bool] | None = None  # tries each model by itself, where it is given
    largest: float = LARGEST_NORM  # of an update
    blamed: Mapping[int, str] = field(default_factory=dict)  # who was not asked again, and why
    norms: dict[int, float] = field(default_factory=dict)  # of the updates that were taken
    too_large: list[float] = field(default_factory=list)  # norms for which others were refused
    missing: list[int] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    bytes_up: int = 0
    bytes_down: int = 0

    def __iter__(self) -> Iterator[Reply]:
        sizes, kind = self.federation.facts.sizes, self.exchange.message.kind
        answered: set[int] = set()
        for client, why in self.blamed.items():
            self._refuse(client, Refused(why))
        for visit in self.visits:
            if isinstance(visit, Absence):
                self.record({"client": visit.client, "kind": kind, "missing": visit.reason})
                continue
            reply = visit.reply
            self.bytes_up += reply_bytes(reply)
            try:
                check_sender(reply.client, self.exchange.clients, answered)
                sent = self.exchange.to(reply.client)
                self.bytes_down += message_bytes(sent, self.federation.scaling)
                check_reply(reply, self.kind, sent, sizes[reply.client])
                norm = self._checked_norm(reply, sent)
                if self.accounts is not None:
                    self.accounts.enter(reply, self.kind)
            except Refused as reason:
                client = reply.client if isinstance(reply.client, int) else NOBODY
                self._refuse(client, reason)
                continue
            if norm is not None:
                self.norms[reply.client] = norm
            answered.add(reply.client)
            self.federation.accept(reply.client, visit.memory)
            self.seen.append(Seen(replace(reply, weights=None, payload={}), visit.diary))
            self.record(client_line(kind, reply, visit.diary, norm))
            yield reply
        self.missing = [client for client in self.exchange.clients if client not in answered]

    def _checked_norm(self, reply: Reply, sent: Message) -> float | None:
        """How far the models moved; refused where that, or what they have become, is no model."""
        if not reply.weights:
            return None
        norm = update_norm(reply.weights, sent.weights)
        if not norm <= self.largest:
            self.too_large += [norm] if norm <= LARGEST_NORM else []
            raise Refused(f"its update has norm {norm:.3g}, at most {self.largest:.3g} is taken")
        if self.sound is not None and not self.sound(reply.weights):
            raise Refused(f"its model's outputs are not finite; its update has norm {norm:.3g}")
        return norm

    def _refuse(self, client: int, reason: Refused) -> None:
        kind = self.exchange.message.kind
        why = self.federation.refuse(client, str(reason))
        self.record({"client": client, "kind": kind, "refused": why})
        declared = not isinstance(reason, Undeclared)
        self.refusals.append(Refusal(client, kind, why, declared))

    @property
    def tally(self) -> Tally:
        """What stays of them until the round is recorded."""
        return Tally(tuple(self.seen), tuple(self.missing), self.bytes_up, self.bytes_down)

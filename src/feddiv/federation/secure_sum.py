"""One exchange as a secure sum: the server learns the sum of the clients' totals, and no one's own.

The method's own messages and replies are step C of four (`privacy/sum_client.py` has them all).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from feddiv.core.arrays import Array
from feddiv.core.errors import UserError
from feddiv.federation.accounts import Accounts
from feddiv.federation.carriage import Carriage, Note
from feddiv.federation.federation import Absence
from feddiv.federation.reply_check import Refused, check_possible, check_reply
from feddiv.federation.traffic import message_bytes, reply_bytes
from feddiv.learning.average import copied
from feddiv.methods.contract import (
    Declared,
    Exchange,
    Kind,
    Message,
    Payload,
    Replies,
    Reply,
    Visit,
)
from feddiv.privacy.conflicts import check_enough
from feddiv.privacy.options import LEAST_CLIENTS
from feddiv.privacy.primitives import KEY, agreed
from feddiv.privacy.roster import KEY_WORDS, KEYS, Roster
from feddiv.privacy.sum_client import (
    BITS,
    LETTER_WORDS,
    LETTERS,
    MEMBERS,
    PLEDGE,
    SHARE_WORDS,
    SHARES,
    STEP_KEYS,
    STEP_LETTERS,
    STEP_SHARES,
    SURVIVORS,
)
from feddiv.privacy.sum_server import MaskedSum, NoSum
from feddiv.privacy.totals import bits_of, layout_of, masked_kind, overflowing
from feddiv.privacy.words import WORD, as_bytes, not_words


@dataclass
class SecureSum(Carriage):
    """The exchange of a method whose pooled entries come masked.

    `threshold` is the share of the clients that has to stay to the end, `note` writes a line of the
    journal.
    """

    threshold: float = 2 / 3
    note: Note = lambda line: None

    def __post_init__(self) -> None:
        check_enough(len(self.exchange.clients), f"exchange {self.exchange.message.kind!r}")
        self.planned = self.kind
        self.kind = masked_kind(self.planned)
        self.bits = bits_of(self.planned, len(self.exchange.clients))
        if name := overflowing(self.planned, len(self.exchange.clients)):
            raise UserError(
                f"privacy.filter=sum_only: {name} of {len(self.exchange.clients)} clients of "
                "this size is too large for a secure sum"
            )
        self.sum: MaskedSum | None = None
        self.letters: dict[int, Array] = {}  # by the place of who sent them
        self.lost: dict[int, str] = {}  # clients that did not get to step C, and where they stayed

    # Steps A, B and C

    def visits(self) -> Iterator[Visit[Any] | Absence]:
        """Keys, letters, then the method's own exchange with those who are still there."""
        roster = self._roster()
        members = self._members(roster)
        marks = _marks(roster, members)
        added = {**roster.payload(), MEMBERS: marks, BITS: np.array([*self.bits.values()], float)}
        planned = self.exchange

        def extended(message: Message) -> Message:
            return replace(message, payload={**message.payload, **added})

        self.exchange = Exchange(
            planned.clients,
            extended(planned.message),
            {client: extended(each) for client, each in planned.personal.items()},
        )
        there = {roster.clients[place] for place in members}
        return self._work(tuple(client for client in planned.clients if client in there))

    def _work(self, clients: tuple[int, ...]) -> Iterator[Visit[Any] | Absence]:
        for client, reason in self.lost.items():
            yield Absence(client, reason)
        yield from self.federation.visits(replace(self.exchange, clients=clients), self.rng)

    def _roster(self) -> Roster:
        kind = Kind({KEYS: _words(KEY_WORDS)}, models=())
        found: dict[int, bytes] = {}
        asked = Exchange(self.exchange.clients, Message(STEP_KEYS))
        for client, payload in self._asked(asked, kind, self.lost):
            pair = as_bytes(payload[KEYS])
            try:
                for public in (pair[:KEY], pair[KEY:]):
                    agreed(bytes([1] * KEY), public)
            except ValueError:
                self._refused(client, STEP_KEYS, "its public key is none")
                continue
            found[client] = pair
        clients = sorted(found)
        roster = Roster(
            tuple(clients),
            tuple(found[client][:KEY] for client in clients),
            tuple(found[client][KEY:] for client in clients),
        )
        self._need(
            len(clients), max(self._least(len(self.exchange.clients)), LEAST_CLIENTS), "gave keys"
        )
        return roster

    def _members(self, roster: Roster) -> list[int]:
        count = len(roster.clients)
        kind = Kind({LETTERS: _words(count, LETTER_WORDS), PLEDGE: _words(KEY // 4)}, models=())
        pledges: dict[int, bytes] = {}
        asked = Exchange(roster.clients, Message(STEP_LETTERS, payload=roster.payload()))
        for client, payload in self._asked(asked, kind, self.lost):
            place = roster.clients.index(client)
            self.letters[place] = payload[LETTERS]
            pledges[place] = as_bytes(payload[PLEDGE])
        members = sorted(self.letters)
        least = roster.threshold(self.threshold)
        self._need(len(members), least, "gave shares")
        layout = layout_of(self.planned, self.bits)
        self.sum = MaskedSum(roster, members, layout, least, pledges)
        return members

    # Step D

    def merged(self, replies: Replies, accounts: Accounts | None) -> Replies:
        """Replies whose totals are zeros, and with the last of them the sum of all."""
        return Summed(replies, self, accounts)

    def unmasked(self) -> Payload:
        """The sum of what was added, once those who answered have helped to take the masks off."""
        total = self.sum
        assert total is not None
        roster, survivors = total.roster, sorted(total.survivors)
        self._need(len(survivors), total.threshold, "answered")
        common = {
            **roster.payload(),
            MEMBERS: _marks(roster, total.members),
            SURVIVORS: _marks(roster, survivors),
        }
        nothing = np.zeros((len(roster.clients), LETTER_WORDS))
        personal: dict[int, Message] = {}
        for place in survivors:
            mine = nothing.copy()
            for sender, letters in self.letters.items():
                mine[sender] = letters[place]
            client = roster.clients[place]
            personal[client] = Message(STEP_SHARES, payload={**common, LETTERS: mine})
        clients = tuple(roster.clients[place] for place in survivors)
        kind = Kind({SHARES: _words(len(roster.clients), SHARE_WORDS)}, models=())
        said = {
            roster.clients.index(client): payload[SHARES]
            for client, payload in self._asked(
                Exchange(clients, Message(STEP_SHARES), personal), kind, {}
            )
        }
        return total.unmasked(said)

    # What the steps share

    def _asked(
        self, exchange: Exchange, kind: Kind, lost: dict[int, str]
    ) -> Iterator[tuple[int, Payload]]:
        """The answers of those who gave one as they should; `lost` gets the others."""
        sizes, step = self.federation.facts.sizes, exchange.message.kind
        missing = dict.fromkeys(exchange.clients, f"{step}: no answer")
        for visit in self.federation.visits(exchange, self.rng):
            if isinstance(visit, Absence):
                missing[visit.client] = f"{step}: {visit.reason}"
                continue
            reply, sent = visit.reply, exchange.to(visit.reply.client)
            self.bytes_up += reply_bytes(reply)
            self.bytes_down += message_bytes(sent)
            try:
                check_reply(reply, kind, sent, sizes[reply.client])
                check_possible(reply, kind)
            except Refused as reason:
                missing.pop(reply.client, None)
                self._refused(reply.client, step, str(reason))
                continue
            missing.pop(reply.client, None)
            yield reply.client, reply.payload
        lost |= missing

    def _refused(self, client: int, step: str, reason: str) -> None:
        self.note(
            {"client": client, "kind": step, "refused": self.federation.refuse(client, reason)}
        )
        self.lost[client] = f"{step}: refused"

    def _least(self, clients: int) -> int:
        return int(np.ceil(self.threshold * clients - 1e-9))

    def _need(self, there: int, least: int, did: str) -> None:
        if there < least:
            raise NoSum(f"{there} of {len(self.exchange.clients)} clients {did}, {least} have to")


@dataclass
class Summed:
    """The replies of a secure sum as the method gets them: whose totals are whose stays unknown."""

    replies: Replies
    exchange: SecureSum
    accounts: Accounts | None
    sizes: dict[int, int] = field(default_factory=dict)

    @property
    def missing(self) -> list[int]:
        """Clients whose reply did not come or was refused."""
        return self.replies.missing

    def __iter__(self) -> Iterator[Reply]:
        waiting: Reply | None = None  # the last one carries the sum, and may be any
        for reply in self.replies:
            assert self.exchange.sum is not None
            self.exchange.sum.add(reply.client, reply.payload)
            self.sizes[reply.client] = reply.samples
            if waiting is not None:
                yield waiting
            weights = None if reply.weights is None else copied(reply.weights)
            waiting = replace(reply, weights=weights, payload=self._blank(reply.payload))
        if waiting is None:
            return
        self.exchange.before_sum()
        total = self.exchange.unmasked()
        if self.accounts is not None:
            try:
                self.accounts.enter_sum(total, self.exchange.planned, self.sizes)
            except Refused as reason:
                raise NoSum(f"the sum is impossible: {reason}") from None
        yield replace(waiting, payload={**waiting.payload, **total})

    def _blank(self, payload: Payload) -> Payload:
        zeros = self.exchange.sum
        assert zeros is not None
        shapes: Mapping[str, tuple[int, ...]] = zeros.layout.shapes
        return {**payload, **{name: np.zeros(shape) for name, shape in shapes.items()}}


def _marks(roster: Roster, places: list[int]) -> Array:
    marks = np.zeros(len(roster.clients))
    marks[places] = 1.0
    return marks


def _words(*shape: int) -> Declared:
    return Declared(shape, 0.0, WORD - 1, impossible=not_words)

"""Clients that lie: they do their work honestly, and then say something else.

A hostile site can send whatever passes for a reply. `LyingInProcess` and `LyingWorkers` are the
real federations, but for what the liars among their clients say (`lies.py`): of their scores and
labels, of their models, of how many samples they have, and of who they are. What a client says of
its scores goes up as changes; a liar keeps account of what it has said, so that the server adds its
lies up to what the attack wants.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from lies import ATTACKS, NONE, Attack, Scene

from feddiv.core.randomness import Streams
from feddiv.federation.federation import Absence
from feddiv.federation.in_process import InProcess
from feddiv.federation.reply_check import Refused
from feddiv.federation.simulation import Simulation
from feddiv.federation.worker_pool import Workers
from feddiv.learning.average import copied
from feddiv.methods.contract import Exchange, Facts, Kind, Payload, Reply, Visit, declared_kind


def chosen_liars(clients: int, share: float, seed: int) -> frozenset[int]:
    """Who lies: drawn from the seed of the run, so the same for every method and attack."""
    count = round(share * clients)
    order = Streams(seed).numpy("liars").permutation(clients)  # few liars are among many
    return frozenset(int(client) for client in order[:count])


@dataclass
class Books:
    """What one liar has said in all of entries that go up as changes, and what would be true."""

    true: Payload = field(default_factory=dict)
    told: Payload = field(default_factory=dict)


class Lying(Simulation):
    """The part that lies, in front of one of the real federations."""

    attack: Attack = ATTACKS[NONE]
    liars: frozenset[int] = frozenset()

    def lie(self, attack: Attack, liars: frozenset[int]) -> None:
        """Who says what from now on."""
        self.attack, self.liars = attack, liars
        self._books = {client: Books() for client in liars}
        self._pending: tuple[int, Books] | None = None  # of the reply that is being looked at
        self._staged: dict[int, Books] = {}  # of replies taken in this exchange

    @property
    def facts(self) -> Facts:
        """The hello of every client; liars may say that they have more samples."""
        facts = super().facts
        sizes = {
            client: size * (self.attack.size if client in self.liars else 1)
            for client, size in facts.sizes.items()
        }
        return replace(facts, sizes=sizes)

    def visits(self, exchange: Exchange, rng: Streams) -> Iterator[Visit[Any] | Absence]:
        """All clients do their work; then liars say something else."""
        kind = declared_kind(self.workspace.method, self.facts, exchange)
        for visit in super().visits(exchange, rng):  # type: ignore[safe-super]
            client, self._pending = visit.reply.client, None
            if client not in self.liars:
                yield visit
                continue
            if self.attack.silent:
                yield Absence(client, "says nothing")
                continue
            reply = visit.reply
            if reply.weights is not None:  # they may be those of the net that a lie needs
                reply = replace(reply, weights=copied(reply.weights))
            scene = Scene(
                self.workspace.client(client),
                exchange.to(client),
                reply,
                self.workspace.method.options,
                Streams(rng.seed, client=client),
            )
            told = self._told(reply, scene, kind, exchange)
            if told.client != client and (why := why_not_delivered(told, client, scene, rng)):
                yield Absence(client, why)
                continue
            yield replace(visit, reply=told)

    def accept(self, client: int, memory: bytes) -> None:
        """The reply was taken: the liar remembers what it has said."""
        if self._pending is not None:
            client, books = self._pending  # its own memory, whatever number it gave
            self._staged[client] = books
        super().accept(client, memory)

    def commit(self) -> None:
        """The exchange is over."""
        self._books |= self._staged
        self._staged = {}
        super().commit()

    def discard(self) -> None:
        """The exchange is given up: nothing of it was said."""
        self._staged = {}
        super().discard()

    def _told(self, reply: Reply, scene: Scene, kind: Kind, exchange: Exchange) -> Reply:
        attack, books = self.attack, self._books[reply.client]
        changing = {name for name, entry in kind.reply.items() if entry.pooled == "change"}
        true = _added(books.true, reply.payload, changing)
        told = attack.totals({**reply.payload, **true}, scene)
        if attack.size != 1:
            told = {
                name: value if name == "mixture" else value * attack.size
                for name, value in told.items()
            }
        changes = {
            name: value - books.told.get(name, 0.0) if name in changing else value
            for name, value in told.items()
        }
        changes = attack.changes(changes, scene)
        said = _added(books.told, changes, changing)
        self._pending = reply.client, Books({**books.true, **true}, {**books.told, **said})
        weights = reply.weights
        if weights is not None and attack.model is not None:
            received = scene.received.weights
            weights = {name: attack.model(received[name], net) for name, net in weights.items()}
        client = reply.client
        samples = scene.samples * attack.size
        if attack.disguised and (others := [c for c in exchange.clients if c not in self.liars]):
            client = others[reply.client % len(others)]
            samples = self.facts.sizes[client]
        return replace(reply, client=client, samples=samples, payload=changes, weights=weights)


def why_not_delivered(reply: Reply, asked: int, scene: Scene, rng: Streams) -> str:
    """Why a reply under another client's number does not come through; empty where it does.

    Who a reply is from is the business of those who carry it: here of Flower's federation, which
    knows whom it asked.
    """
    from feddiv.flower.records import VisitAddress, read_reply, reply_records

    address = VisitAddress("this run", rng.round, rng.exchange, rng.part, asked)
    false = replace(address, client=reply.client)
    try:
        read_reply(reply_records(false, reply), address, scene.received)
    except Refused as reason:
        return str(reason)
    return ""


def _added(before: Payload, changes: Payload, changing: set[str]) -> Payload:
    """Totals of the entries that go up as changes."""
    return {
        name: before[name] + value if name in before else np.asarray(value)
        for name, value in changes.items()
        if name in changing
    }


class LyingInProcess(Lying, InProcess):
    """Liars in this process."""


class LyingWorkers(Lying, Workers):
    """Liars among clients that worker processes act for."""

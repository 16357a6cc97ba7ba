"""Who takes part: sites, the nodes they are connected by, and what they said of themselves.

A *seat* is the number that a site has among the clients of a run, given once and for good. A
*trial* is a deployment whose sites use parts of one public data set instead of their own data; the
*place* of such a site is the number of its part in the draw.
"""

import hashlib
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from flwr.app import Message

from feddiv.config.sections import MOST_CLIENTS
from feddiv.core.terminal import NAME, shown
from feddiv.federation.federation import Totals
from feddiv.federation.reply_check import Refused, check_reply
from feddiv.flower.records import VisitAddress, read_reply
from feddiv.methods.contract import Declared, Kind, Reply
from feddiv.methods.contract import Message as Sent

MOST_SAMPLES = 1_000_000_000_000  # of one site


@dataclass(frozen=True)
class Seat:
    """A site that the run knows: its number among the clients, and how it is known again."""

    client: int
    key: str  # of its node, or its place in the draw in a trial
    name: str
    samples: int  # n_k


@dataclass(frozen=True)
class Node:
    """A node as Flower tells of it."""

    id: int
    key: str
    name: str
    session: str  # changes when the site connects anew
    keyed: bool = True  # whether a key says who it is

    @classmethod
    def of(cls, info: Any, keyed: bool) -> "Node":
        """From Flower's own description; a node without a key is known by its number."""
        public = bytes(info.public_key) if keyed else b""
        key = hashlib.sha256(public).hexdigest()[:16] if public else f"node {info.node_id}"
        name, session = shown(str(info.name), NAME), str(info.last_activated_at)
        return cls(info.node_id, key, name, session, bool(public))


class Transient(Refused):
    """What a site did is of no use, but it may be asked again."""


@dataclass(frozen=True)
class Greeting:
    """What a site answered to the server's hello; `place` is its number in the draw, in a trial."""

    node: Node
    samples: int
    place: int | None

    @classmethod
    def of(cls, node: Node, reply: Reply, places: int) -> "Greeting":
        """From its reply; the run's own draw has so many places.

        If the run has no draw (no places), a place is used only to tell nodes without keys apart:
        a node that has a key is known by the key.
        """
        if reply.samples < 1:
            raise Refused("has no samples")
        if reply.samples > MOST_SAMPLES:
            raise Refused(f"says it has {reply.samples:,} samples")
        if reply.weights or reply.payload or reply.metrics.keys() - {"place"}:
            raise Refused("says more than it was asked for")
        place = reply.metrics.get("place")
        if place is None or (places == 0 and node.keyed):
            return cls(node, reply.samples, None)
        places = places or MOST_CLIENTS
        if not 0 <= place < places or place != int(place):  # also what is not a number
            raise Refused(f"says that its place in the draw is {place:g}; there are {places}")
        return cls(node, reply.samples, int(place))

    @property
    def key(self) -> str:
        """By what the site is known again."""
        return self.node.key if self.place is None else f"part {self.place}"

    @property
    def name(self) -> str:
        """What to call it."""
        if self.place is not None:
            return f"client {self.place}"
        return self.node.name or self.node.key


class Seats:
    """Numbers of the sites, given once and for good, whatever node a site is connected by."""

    def __init__(self) -> None:
        self.by_key: dict[str, Seat] = {}
        self.nodes: dict[int, int] = {}  # the client that a node acts for

    @property
    def sizes(self) -> dict[int, int]:
        """n_k of all sites."""
        return {seat.client: seat.samples for seat in self.known}

    @property
    def known(self) -> list[Seat]:
        """All sites in their order."""
        return sorted(self.by_key.values(), key=lambda seat: seat.client)

    def connected(self, nodes: Collection[int]) -> set[str]:
        """Keys of the sites that these nodes act for."""
        clients = {self.nodes[node] for node in nodes if node in self.nodes}
        return {seat.key for seat in self.known if seat.client in clients}

    def name(self, client: int) -> str:
        """What to call a client; Flower lets nodes have the same name."""
        names = {seat.client: seat.name for seat in self.known}
        name = names.get(client, str(client))
        return name if list(names.values()).count(name) < 2 else f"{name} (client {client})"

    def check(self, greeting: Greeting, taken: Collection[str]) -> None:
        """Refuse a site that may not take its seat; `taken` are keys of sites that are here."""
        if greeting.key in taken:
            raise Transient(f"another node acts for {greeting.name} already")
        seat = self.by_key.get(greeting.key)
        if seat is not None and seat.samples != greeting.samples:
            raise Refused(f"has {greeting.samples} samples, had {seat.samples} when it joined")

    def seat(self, greetings: list[Greeting]) -> dict[int, int]:
        """Give everybody a seat, the old one if there is one; sizes of those who had none."""
        fresh: dict[int, int] = {}
        for greeting in sorted(greetings, key=lambda each: (each.name, each.key)):
            seat = self.by_key.get(greeting.key)
            if seat is None:
                used = {each.client for each in self.by_key.values()}
                client = greeting.place if greeting.place is not None else max(used, default=-1) + 1
                seat = Seat(client, greeting.key, greeting.name, greeting.samples)
                fresh[client] = greeting.samples
            seat = replace(seat, name=greeting.name)
            self.by_key[greeting.key] = seat
            self.nodes = {node: c for node, c in self.nodes.items() if c != seat.client}
            self.nodes[greeting.node.id] = seat.client
        return fresh


def audit_kind(size: int) -> Kind:
    """What a site says of its label audit: counts."""
    count = Declared((), low=0.0, high=float(size), optional=True, metric=True)
    return Kind({"flagged": count, "wrong": count, "caught": count}, models=())


def audited(reply: Reply, size: int) -> Totals:
    """What a site with so many samples says of its label audit; refused if it cannot be so."""
    check_reply(reply, audit_kind(size), Sent("assess"), size)
    counts = {name: int(value) for name, value in reply.metrics.items()}
    if counts != reply.metrics:
        raise Refused("says counts that are none")
    totals = Totals(size, **counts)
    confusion = totals.confusion
    if confusion is not None and min(confusion.counts()) < 0:
        raise Refused("says that more labels are caught than are flagged, or wrong")
    return totals


def reply_in(answer: Message | Refused, expected: VisitAddress, sent: Sent) -> Reply:
    """The reply in a message that came; refused where it holds none, or none came.

    Whatever a site makes of it, nothing else is raised: others' replies are still to be read.
    """
    try:
        if isinstance(answer, Refused):
            raise answer
        if answer.has_error():
            lines = str(answer.error.reason or "").strip().splitlines() or ["no reason"]
            raise Transient(f"failed (code {answer.error.code}): {lines[-1]}")
        return read_reply(answer.content, expected, sent)
    except Refused:
        raise
    except Exception as problem:
        raise unreadable(problem) from None


def unreadable(problem: Exception) -> Refused:
    """Of a reply that neither Flower nor we can make anything of."""
    return Refused(f"its reply cannot be read ({type(problem).__name__})")

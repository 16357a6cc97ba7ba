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
from feddiv.core.terminal import shown
from feddiv.federation.reply_check import Refused
from feddiv.flower.records import LONGEST, VisitAddress, read_reply
from feddiv.methods.contract import Declared, Kind, Reply


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
        return cls(info.node_id, key, str(info.name), str(info.last_activated_at), bool(public))


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


def reply_in(answer: Message | str, expected: VisitAddress) -> Reply:
    """The reply in a message that came; refused where it holds none, or none came."""
    if isinstance(answer, str):
        raise Transient(answer)
    if answer.has_error():
        lines = str(answer.error.reason or "").strip().splitlines()
        said = shown(lines[-1])[:LONGEST] if lines else "no reason"
        raise Transient(f"failed (code {answer.error.code}): {said}")
    return read_reply(answer.content, expected)

"""The federation on Flower's Grid: our round loop on the server, clients at their sites.

The server knows of a client's memory only which version it has: the memory itself stays at the
site. A reply that was refused, lost or late advances nothing, because the next message names the
version to start from.
"""

import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from flwr.app import Message as FlowerMessage
from flwr.app import MessageType, RecordDict

from feddiv.config import Experiment, to_toml
from feddiv.errors import TooFew
from feddiv.federation.contract import Absence, Totals
from feddiv.federation.flower.records import (
    Address,
    Task,
    message_records,
    read_reply,
    weight_records,
)
from feddiv.federation.flower.sites import Greeting, Node, Seat, Seats
from feddiv.federation.wire import Refused, check_reply
from feddiv.federation.workspace import Workspace
from feddiv.interrupts import allowed
from feddiv.learning.average import StateDict, Weights
from feddiv.methods.contract import Assessment, Declared, Exchange, Facts, Message, Reply, Visit
from feddiv.randomness import Streams
from feddiv.sections import Flower
from feddiv.trees import Tensors

HELLO, ASSESS = "hello", "assess"
NOBODY = -1  # the client of a message to a site that has no number yet
KEPT = 3  # saves that a run may come back to: two checkpoints, and one being written
SOONEST, LATEST = 0.01, 0.5  # seconds between two looks for a reply
GREETING = 120.0  # seconds to answer hello: a site may have images to read


class Network(Protocol):
    """What is used of Flower's Grid."""

    def get_nodes(self) -> Iterable[Any]:
        """The nodes that are connected now."""

    def push_messages(self, messages: Iterable[FlowerMessage]) -> Iterable[str]:
        """Send; the messages' ids."""

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[FlowerMessage]:
        """Answers to these messages that have come."""


class FlowerFederation:
    """Sites that are reached through a Grid. `run` tells this run's memories from others'.

    A site has `greeting` seconds to answer hello. The first model that is made begins with
    the `initial` weights, if there are any.
    """

    def __init__(
        self,
        grid: Network,
        workspace: Workspace,
        experiment: Experiment,
        options: Flower,
        run: str,
        tell: Callable[[str], None] = lambda line: None,
        greeting: float = GREETING,
        initial: StateDict | None = None,
    ) -> None:
        torch.set_num_threads(1)  # as everywhere: more would change the bits of an evaluation
        self.grid, self.workspace, self.options, self.run, self.tell = (
            grid,
            workspace,
            options,
            run,
            tell,
        )
        self.greeting, self.initial = greeting, initial
        self.config = to_toml(experiment.from_anywhere())
        self.seats = Seats()
        self.versions: dict[int, str] = {}
        self._staged: dict[int, str] = {}
        self._marked: dict[int, str] = {}
        self._saved: list[dict[int, str]] = []
        self._refused: dict[tuple[int, str], str] = {}  # sites that may not take part, and why
        self._gathered = False
        self._unannounced: dict[int, int] = {}  # sites that joined while the server was away

    # Who is there

    @property
    def facts(self) -> Facts:
        """What the sites said when they were greeted; the first time it waits for them."""
        if not self._gathered:
            self._gather()
        dataset = self.workspace.dataset
        return Facts(
            dataset.classes, dataset.input_shape, self.seats.sizes, self.workspace.draw.iid
        )

    @property
    def wanted(self) -> int:
        """Sites that have to be there before a run begins, or goes on."""
        if self.seats.by_key:
            return self._quorum(len(self.seats.by_key))
        return self.options.sites or max(len(self.workspace.draw.parts), 1)

    def _gather(self) -> None:
        """Greet sites until enough are there; then they get their numbers."""
        greetings: dict[int, Greeting] = {}
        deadline = time.monotonic() + self.options.wait
        resumed = bool(self.seats.by_key)
        self.tell(f"waiting for {self.wanted} sites")
        while len(greetings) < self.wanted:
            unmet = [node for node in self._nodes() if node.id not in greetings]
            here = {greeting.key for greeting in greetings.values()}
            for greeting in self._greeted(unmet, here):
                greetings[greeting.node.id] = greeting
                self.tell(f"{greeting.name} is here, with {greeting.samples} samples")
            if len(greetings) < self.wanted and not self._pause(deadline):
                refused = "; ".join(self._refused.values())
                raise TooFew(
                    f"{len(greetings)} of {self.wanted} sites are there after "
                    f"federation.wait={self.options.wait:g} seconds"
                    + (f" (refused: {refused})" if refused else "")
                )
        fresh = self.seats.seat(list(greetings.values()))
        self._unannounced = fresh if resumed else {}  # a run that begins knows them from `facts`
        self._gathered = True

    def newcomers(self) -> dict[int, int]:
        """Greet nodes that the run has not met in this session."""
        if not self._gathered:
            self._gather()
        nodes = self._nodes()
        here = self.seats.connected({node.id for node in nodes})
        greetings = self._greeted([node for node in nodes if node.id not in self.seats.nodes], here)
        for greeting in greetings:
            self.tell(f"{greeting.name} joins, with {greeting.samples} samples")
        joined = {**self._unannounced, **self.seats.seat(greetings)}
        self._unannounced = {}
        return joined

    def _nodes(self) -> list[Node]:
        """The nodes that are connected now."""
        return sorted((Node.of(info) for info in self.grid.get_nodes()), key=lambda node: node.id)

    def _greeted(self, nodes: list[Node], here: set[str]) -> list[Greeting]:
        """Those of the nodes that answer hello as they should; `here` are keys of known sites."""
        nodes = [node for node in nodes if (node.id, node.session) not in self._refused]
        address = Address(self.run, 0, 0, "", NOBODY)
        task = Task(address, HELLO, self.config)
        records = message_records(task, Message(HELLO))
        found: list[Greeting] = []
        replies = self._sent({node.id: records for node in nodes}, self.greeting)
        for node, (_, answer) in zip(nodes, replies, strict=True):
            try:
                greeting = _greeting(node, _reply(answer, address))
                taken = {*here, *(each.key for each in found)}
                if objection := self.seats.objection(greeting, taken):
                    raise Refused(objection)
            except Refused as reason:
                line = f"{node.name or node.key}: {reason}"
                self._refused[node.id, node.session] = line
                self.tell(line)
                continue
            found.append(greeting)
        return found

    def _pause(self, deadline: float) -> bool:
        """Wait a little; False when there is no time left."""
        with allowed():
            time.sleep(LATEST)
        return time.monotonic() < deadline

    # Exchanges

    def exchange(self, exchange: Exchange, rng: Streams) -> Iterator[Visit[Any] | Absence]:
        """Ask everybody at once; take the answers in the plan's order."""
        nodes = {client: node for node, client in self.seats.nodes.items()}
        online = {node.id for node in self._nodes()}
        weights = weight_records(exchange.message.weights)  # once for all
        records: dict[int, RecordDict] = {}
        asked: dict[int, Address] = {}
        for client in exchange.clients:
            if nodes.get(client) in online:
                message = exchange.to(client)
                same = message.weights is exchange.message.weights
                address = Address(self.run, rng.round, rng.exchange, rng.part, client)
                asked[client] = address
                task = self._task(message, address)
                records[nodes[client]] = message_records(task, message, weights if same else None)
        answers = self._sent(records, self.options.round_timeout)
        for client in exchange.clients:
            if client not in asked:
                yield self._absence(client, f"{self.seats.name(client)} is not connected")
                continue
            _, answer = next(answers)
            try:
                reply = _reply(answer, asked[client])
            except Refused as reason:
                yield self._absence(client, f"{self.seats.name(client)}: {reason}")
                continue
            yield Visit(reply, asked[client].version)

    def _absence(self, client: int, reason: str) -> Absence:
        self.tell(reason)
        return Absence(client, reason)

    def _task(self, message: Message, address: Address) -> Task:
        client = address.client
        versions = [*self._saved, self._marked, self.versions]
        return Task(
            address,
            message.kind,
            self.config,
            self.versions.get(client, ""),
            tuple(sorted({each[client] for each in versions if client in each})),
        )

    def _sent(
        self, records: Mapping[int, RecordDict], seconds: float
    ) -> Iterator[tuple[int, FlowerMessage | str]]:
        """Send to nodes; their answers, or why there is none, in the same order.

        Each answer is fetched when it is its turn, so that no more than one model is held at once.
        """
        messages = [
            FlowerMessage(content, node, MessageType.TRAIN, ttl=seconds)
            for node, content in records.items()
        ]
        ids = list(self.grid.push_messages(messages)) if messages else []
        deadline = time.monotonic() + seconds
        for node, id in zip(records, ids, strict=True):
            yield node, self._answer(id, deadline, seconds)

    def _answer(self, id: str, deadline: float, seconds: float) -> FlowerMessage | str:
        pause = SOONEST
        while id:
            with allowed():
                found = list(self.grid.pull_messages([id]))
            if found:
                return found[0]
            if time.monotonic() >= deadline:
                return f"did not answer in {seconds:g} seconds"
            with allowed():
                time.sleep(pause)
            pause = min(2 * pause, LATEST)
        return "could not be reached"

    def accept(self, client: int, memory: str) -> None:
        """The reply was taken: the client's memory will be this version of it."""
        self._staged[client] = memory

    def commit(self) -> None:
        """The exchange is over."""
        self.versions = {**self.versions, **self._staged}
        self._staged = {}

    def discard(self) -> None:
        """The exchange is given up."""
        self._staged = {}

    # Rounds in which too few answered

    def enough(self, answered: int, asked: int) -> bool:
        """Whether the quorum was reached."""
        return answered >= self._quorum(asked)

    def _quorum(self, asked: int) -> int:
        return max(math.ceil(self.options.quorum * asked - 1e-9), 1)

    def mark(self) -> dict[int, str]:
        """The versions of now."""
        self._marked = self.versions
        return self._marked

    def rewind(self, mark: dict[int, str], attempts: int) -> None:
        """Back to the versions of the mark, once a quorum of the sites is there again."""
        self.versions = mark
        if attempts >= self.options.attempts:
            raise TooFew(
                f"too few sites answered, {attempts} times in a row (federation.attempts): "
                "clients.jsonl names them"
            )
        self.tell(f"too few sites answered: the round is repeated, attempt {attempts + 1}")
        deadline = time.monotonic() + self.options.wait
        while not self.enough(self._present(), len(self.seats.by_key)):
            if not self._pause(deadline):
                raise TooFew(
                    f"{self._present()} of {len(self.seats.by_key)} sites are connected after "
                    f"federation.wait={self.options.wait:g} seconds"
                )

    def _present(self) -> int:
        return sum(node.id in self.seats.nodes for node in self._nodes())

    # What the server does itself

    def make_model(self, name: str, rng: Streams) -> StateDict:
        """Freshly initialised weights, or those that the run was given."""
        if self.initial is not None:
            given, self.initial = self.initial, None
            return given
        return self.workspace.make_model(name, rng)

    def evaluate(self, weights: Weights) -> npt.NDArray[np.float32]:
        """Logits of the test samples that the server has."""
        with allowed():
            return self.workspace.evaluate(weights)

    def assess(self, message: Message, rng: Streams) -> Iterator[tuple[int, Assessment | Totals]]:
        """Every site writes its label audit; what it says of it here are counts."""
        facts = self.facts
        exchange = Exchange(tuple(facts.sizes), replace(message, kind=ASSESS))
        for visit in self.exchange(exchange, rng):
            if isinstance(visit, Absence):
                continue  # it was told of
            reply = visit.reply
            size = facts.sizes[reply.client]
            try:
                check_reply(reply, _totals(size), (), exchange.message, size)
            except Refused as reason:
                self.tell(f"no label audit: {self.seats.name(reply.client)}: {reason}")
                continue
            counts = {name: int(value) for name, value in reply.metrics.items()}
            yield reply.client, Totals(size, **counts)

    def save(self) -> Tensors:
        """Who sits where, and the version of each one's memory."""
        self._saved = [*self._saved, self.versions][-KEPT:]
        content = {
            "run": self.run,
            "seats": [asdict(seat) for seat in self.seats.known],
            "versions": list(self.versions.items()),
        }
        text = json.dumps(content).encode()
        return {"sites": torch.frombuffer(bytearray(text), dtype=torch.uint8)}

    def restore(self, tensors: Tensors) -> None:
        """Go on with the sites of a checkpoint, whatever nodes they are connected by now."""
        content = json.loads(tensors["sites"].numpy().tobytes())
        self.run = content["run"]
        self.seats.by_key = {seat["key"]: Seat(**seat) for seat in content["seats"]}
        self.versions = {int(client): version for client, version in content["versions"]}
        self._saved = [self.versions]

    def files(self) -> list[str]:
        """None: nets that clients keep are at the sites."""
        return []

    def close(self) -> None:
        """Nothing to let go of: the Grid is its owner's."""


def _reply(answer: FlowerMessage | str, expected: Address) -> Reply:
    """The reply in a message that came; refused where it holds none."""
    if isinstance(answer, str):
        raise Refused(answer)
    if answer.has_error():
        lines = str(answer.error.reason or "").strip().splitlines()
        raise Refused(f"failed (code {answer.error.code}): {lines[-1] if lines else 'no reason'}")
    return read_reply(answer.content, expected)


def _greeting(node: Node, reply: Reply) -> Greeting:
    place = reply.metrics.get("place")
    if reply.samples < 1:
        raise Refused("has no samples")
    if place is not None and (place < 0 or place != int(place)):
        raise Refused(f"says that its place in the draw is {place:g}")
    return Greeting(node, reply.samples, None if place is None else int(place))


def _totals(size: int) -> dict[str, Declared]:
    """What a site tells of its label audit."""
    count = Declared((), low=0.0, high=float(size), optional=True, metric=True)
    return {"flagged": count, "wrong": count, "caught": count}

"""The federation on Flower's Grid: our round loop on the server, clients at their sites.

The server knows of a client's memory only which version it has: the memory itself stays at the
site. A reply that was refused, lost or late advances nothing, because the next message names the
version to start from.
"""

import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, astuple, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from flwr.app import RecordDict

from feddiv.config.experiment import Experiment, to_toml
from feddiv.config.sections import Flower
from feddiv.core.arrays import StateDict, Weights
from feddiv.core.errors import TooFew, in_one_line
from feddiv.core.files import Unreadable
from feddiv.core.interrupts import allowed
from feddiv.core.randomness import Streams
from feddiv.core.terminal import LINE, shown
from feddiv.core.trees import Tensors
from feddiv.data.scaling import Scaling
from feddiv.federation.federation import Absence, Federation, Totals
from feddiv.federation.reply_check import Refused
from feddiv.federation.workspace import Workspace
from feddiv.flower.delivery import Network, delivered
from feddiv.flower.records import SiteTask, VisitAddress, message_records, weight_records
from feddiv.flower.seats import (
    Greeting,
    Node,
    Seat,
    Seats,
    Transient,
    audited,
    reply_in,
)
from feddiv.methods.contract import Assessment, Exchange, Facts, Message, Visit
from feddiv.privacy.totals import overflowing

HELLO, ASSESS = "hello", "assess"
NOBODY = -1  # the client of a message to a site that has no number yet
KEPT = 3  # saves that a run may come back to: two checkpoints, and one being written
PAUSE = 0.5  # seconds between two looks for sites
HELLO_TIMEOUT = 120.0  # seconds: a site may have images to read first


class FlowerFederation(Federation):
    """Sites that are reached through a Grid.

    `run` is the token that separates this run's memories at the sites from other runs'. `tell`
    prints a line for the operator. A site has `hello_timeout` seconds to answer hello. The first
    model that is made begins with the `initial` weights, if there are any. `keyed` is False in
    simulations, whose node keys are made up and identify nobody.
    """

    def __init__(
        self,
        grid: Network,
        workspace: Workspace,
        experiment: Experiment,
        options: Flower,
        run: str,
        tell: Callable[[str], None] = lambda line: None,
        hello_timeout: float = HELLO_TIMEOUT,
        initial: StateDict | None = None,
        keyed: bool = True,
    ) -> None:
        torch.set_num_threads(1)  # as everywhere: more would change the bits of an evaluation
        self.grid, self.workspace, self.options = grid, workspace, options
        self.run, self.tell = run, tell
        self.hello_timeout, self.initial, self.keyed = hello_timeout, initial, keyed
        self.config = to_toml(experiment.from_anywhere())
        self.seats = Seats()
        self.versions: dict[int, str] = {}
        self._staged: dict[int, str] = {}
        self._marked: dict[int, str] = {}
        self._saved: list[dict[int, str]] = []
        self._refused: dict[tuple[int, str], str] = {}  # sites that may not take part, and why
        self._again: set[tuple[int, str]] = set()  # of those refused, who may be greeted again
        self._gathered = False
        self._strangers: list[Greeting] = []  # sites that wait for a number

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
        """Greet sites until enough are there; then they get their numbers, or their old ones."""
        deadline, resumed = time.monotonic() + self.options.wait, bool(self.seats.by_key)
        wanted = self.wanted
        self.tell(f"waiting for {wanted} site{'' if wanted == 1 else 's'}")
        self._meet()
        while (count := self._present() if resumed else len(self._strangers)) < wanted:
            if not resumed and self._without_refused(count, wanted):
                break
            if not self._pause(deadline):
                refused = shown("; ".join(self._refused.values()), LINE)
                raise TooFew(
                    f"{count} of {wanted} sites are there after "
                    f"federation.wait={self.options.wait:g} seconds"
                    + (f" (refused: {refused})" if refused else "")
                )
            self._meet()
        if not resumed:  # a run that begins knows them from `facts`
            self._seated()
        self._gathered = True

    def _without_refused(self, count: int, wanted: int) -> bool:
        """Whether a run begins without sites that are connected and were refused for good."""
        least = self.options.least
        if least is None or count < least:
            return False
        barred = self._refused.keys() - self._again
        refused = sum((node.id, node.session) in barred for node in self._nodes())
        return count + refused >= wanted

    def newcomers(self) -> dict[int, int]:
        """Sites that the run has not met yet get their numbers."""
        if not self._gathered:
            self._gather()
        self._meet()
        return self._seated()

    def _seated(self) -> dict[int, int]:
        strangers, self._strangers = self._strangers, []
        return self.seats.seat(strangers)

    def _meet(self) -> None:
        """Greet nodes that are new in this session; a site that is known takes its seat."""
        nodes = self._nodes()
        online = {node.id for node in nodes}
        self._strangers = [each for each in self._strangers if each.node.id in online]
        met = {*self.seats.nodes, *(each.node.id for each in self._strangers)}
        here = self.seats.connected(online) | {each.key for each in self._strangers}
        for greeting in self._greeted([node for node in nodes if node.id not in met], here):
            self.tell(f"{greeting.name} is here, with {greeting.samples} samples")
            if greeting.key in self.seats.by_key:
                self.seats.seat([greeting])
            else:
                self._strangers.append(greeting)

    def _nodes(self) -> list[Node]:
        """The nodes that are connected now."""
        found = [Node.of(info, self.keyed) for info in self.grid.get_nodes()]
        return sorted(found, key=lambda node: node.id)

    def _greeted(self, nodes: list[Node], here: set[str]) -> list[Greeting]:
        """Those of the nodes that answer hello as they should; `here` are keys of known sites."""
        barred = self._refused.keys() - self._again
        nodes = [node for node in nodes if (node.id, node.session) not in barred]
        address = VisitAddress(self.run, 0, 0, "", NOBODY)
        task, message = SiteTask(address, HELLO, self.config), Message(HELLO)
        records = message_records(task, message)
        found: list[Greeting] = []
        replies = delivered(self.grid, {node.id: records for node in nodes}, self.hello_timeout)
        for node, (_, answer) in zip(nodes, replies, strict=True):
            try:
                greeting = Greeting.of(
                    node, reply_in(answer, address, message), len(self.workspace.draw.parts)
                )
                taken = {*here, *(each.key for each in found)}
                self.seats.check(greeting, taken)
                self._check_size(greeting, found)
                found.append(greeting)
            except Refused as reason:
                line = f"{node.name or node.key}: {reason}"
                self.tell(line)
                self._refused[node.id, node.session] = line
                if isinstance(reason, Transient):  # next time it may be otherwise
                    self._again.add((node.id, node.session))
        return found

    def _check_size(self, greeting: Greeting, others: list[Greeting]) -> None:
        """Refuse a site that says it is larger than a private filter can bear with the others."""
        privacy, largest = self.workspace.privacy, self.options.largest_site
        if privacy.filter == "none" or greeting.key in self.seats.by_key:
            return
        if largest is not None and greeting.samples > largest:
            raise Refused(
                f"says it has {greeting.samples:,} samples, at most {largest:,} are allowed "
                "(federation.largest_site)"
            )
        if privacy.filter == "sum_only":
            strangers = [*self._strangers, *others, greeting]
            sizes = [*self.seats.sizes.values(), *(each.samples for each in strangers)]
            dataset, draw = self.workspace.dataset, self.workspace.draw
            facts = Facts(dataset.classes, dataset.input_shape, dict(enumerate(sizes)), draw.iid)
            count = max(len(sizes), self.wanted)
            for kind in self.workspace.method.kinds(facts).values():
                if name := overflowing(kind, count):
                    raise Refused(
                        f"says it has {greeting.samples:,} samples: {name} of {count} sites "
                        "would be too large for a secure sum"
                    )

    def _pause(self, deadline: float) -> bool:
        """Wait a little; False when there is no time left."""
        with allowed():
            time.sleep(PAUSE)
        return time.monotonic() < deadline

    # Exchanges

    def visits(self, exchange: Exchange, rng: Streams) -> Iterator[Visit[Any] | Absence]:
        """Ask everybody at once; take the answers in the plan's order."""
        nodes = {client: node for node, client in self.seats.nodes.items()}
        online = {node.id for node in self._nodes()}
        weights = weight_records(exchange.message.weights)  # once for all
        records: dict[int, RecordDict] = {}
        asked: dict[int, VisitAddress] = {}
        for client in exchange.clients:
            if nodes.get(client) in online:
                message = exchange.to(client)
                same = message.weights is exchange.message.weights
                address = VisitAddress(self.run, rng.round, rng.exchange, rng.part, client)
                asked[client] = address
                task = self._task(message, address)
                records[nodes[client]] = message_records(task, message, weights if same else None)
        answers = delivered(self.grid, records, self.options.round_timeout)
        for client in exchange.clients:
            if client not in asked:
                yield self._absence(client, f"{self.seats.name(client)} is not connected")
                continue
            _, answer = next(answers)
            try:
                reply = reply_in(answer, asked[client], exchange.to(client))
            except Refused as reason:
                yield self._absence(client, f"{self.seats.name(client)}: {reason}")
                continue
            yield Visit(reply, asked[client].version)

    def _absence(self, client: int, reason: str) -> Absence:
        self.tell(reason)
        return Absence(client, reason)

    def _task(self, message: Message, address: VisitAddress) -> SiteTask:
        client = address.client
        versions = [*self._saved, self._marked, self.versions]
        return SiteTask(
            address,
            message.kind,
            self.config,
            self.versions.get(client, ""),
            tuple(sorted({each[client] for each in versions if client in each})),
            scaling=self.scaling,
        )

    def accept(self, client: int, memory: str) -> None:
        """The reply was taken: the client's memory will be this version of it."""
        self._staged[client] = memory

    def refuse(self, client: int, reason: str) -> str:
        """The reply was not taken: the operator's line names the site."""
        line = f"{self.seats.name(client)}: refused: {reason}"
        self.tell(line)
        return line

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

    def rewind(self, mark: dict[int, str]) -> None:
        """Back to the versions of the mark."""
        self.versions = mark

    def regroup(self, failures: int) -> None:
        """Wait for a quorum of the sites; known ones are greeted, whatever node they come by."""
        if failures >= self.options.attempts:
            raise TooFew(
                f"too few sites answered, {failures} times in a row (federation.attempts): "
                "clients.jsonl names them"
            )
        self.tell(f"too few sites answered: the round is repeated, attempt {failures + 1}")
        deadline = time.monotonic() + self.options.wait
        self._meet()
        while not self.enough(self._present(), len(self.seats.by_key)):
            if not self._pause(deadline):
                raise TooFew(
                    f"{self._present()} of {len(self.seats.by_key)} sites are connected after "
                    f"federation.wait={self.options.wait:g} seconds"
                )
            self._meet()

    def _present(self) -> int:
        return sum(node.id in self.seats.nodes for node in self._nodes())

    # What the server does itself

    def make_model(self, name: str, rng: Streams) -> StateDict:
        """Freshly initialised weights, or those that the run was given."""
        if self.initial is not None:
            given, self.initial = self.initial, None
            return given
        return self.workspace.make_model(name, rng)

    def standardise(self, scaling: Scaling) -> None:
        """Sites are told with every message."""
        self.scaling = scaling
        self.workspace.standardise(scaling)

    def evaluate(self, weights: Weights) -> npt.NDArray[np.float32]:
        """Logits of the test samples that the server has."""
        with allowed():
            return self.workspace.evaluate(weights)

    def outputs_finite(self, weights: Weights) -> bool:
        """Tried at the server."""
        with allowed():
            return self.workspace.outputs_finite(weights)

    def assess(self, message: Message, rng: Streams) -> Iterator[tuple[int, Assessment | Totals]]:
        """Every site writes its label audit; what it says of it here are counts."""
        facts = self.facts
        exchange = Exchange(tuple(facts.sizes), replace(message, kind=ASSESS))
        for visit in self.visits(exchange, rng):
            if isinstance(visit, Absence):
                continue  # the operator knows already
            client = visit.reply.client
            try:
                totals = audited(visit.reply, facts.sizes[client])
            except Refused as reason:
                self.tell(f"no label audit: {self.seats.name(client)}: {reason}")
                continue
            yield client, totals

    def save(self) -> Tensors:
        """Who sits where, and the version of each one's memory, at the last mark."""
        self._saved = [*self._saved, self._marked][-KEPT:]
        content = {
            "run": self.run,
            "seats": [asdict(seat) for seat in self.seats.known],
            "saved": [list(versions.items()) for versions in self._saved],
        }
        text = json.dumps(content).encode()
        return {"sites": torch.frombuffer(bytearray(text), dtype=torch.uint8)}

    def restore(self, tensors: Tensors) -> None:
        """Go on with the sites of a checkpoint, whatever nodes they are connected by now."""
        try:
            content = json.loads(tensors["sites"].numpy().tobytes())
            seats = {seat["key"]: Seat(**seat) for seat in content["seats"]}
            for seat in seats.values():
                if [type(each) for each in astuple(seat)] != [int, str, str, int]:
                    raise TypeError("a seat that is none")
            saved = [{int(c): str(version) for c, version in each} for each in content["saved"]]
            run, versions = str(content["run"]), saved[-1]
        except Exception as error:  # the checkpoint may be somebody else's
            raise Unreadable(f"does not say who its sites were ({in_one_line(error)})") from None
        self.run, self.seats.by_key = run, seats
        self._saved, self.versions, self._marked = saved, versions, versions

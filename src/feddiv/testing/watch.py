"""Stands between a run and its method, and looks at what goes into each call and comes out."""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import torch

from feddiv.core.arrays import Tensor, Weights
from feddiv.core.randomness import Streams
from feddiv.core.trees import NotATree, dismantle, pack, unpack
from feddiv.methods.contract import (
    Assessment,
    Client,
    Exchange,
    Facts,
    Message,
    Method,
    Moment,
    Nets,
    Replies,
    Reply,
    Visit,
)
from feddiv.runs.journal import Seen, client_line, round_line
from feddiv.testing.findings import Findings, TrialOver
from feddiv.testing.lent_replies import Lent, Nobody
from feddiv.testing.odd_clients import described
from feddiv.testing.snapshot import REMEDIES, Generators, snapshot
from feddiv.testing.watched_samples import Watched

CALLS: Final = ("begin", "plan", "visit", "merge", "predict", "assess", "records")
NOT_ITS_OWN: Final = {*CALLS, "model_store"}  # attributes that a trial or a run sets


class Watch:
    """Watches one method object from now on."""

    def __init__(self, method: Method[Any, Any], findings: Findings) -> None:
        self.method, self.findings = method, findings
        self.facts: Facts | None = None
        self.state: Any = None  # the latest
        self.planned: set[str] = set()  # kinds of exchanges
        # By kind of exchange and name: shapes of what clients sent, by their n_k.
        self.shapes: dict[tuple[str, str], dict[int, tuple[int, ...]]] = defaultdict(dict)
        self._changing: set[str] = set()  # attributes that calls were seen to change
        self._calls: dict[str, Callable[..., Any]] = {name: getattr(method, name) for name in CALLS}
        for name in CALLS:
            setattr(method, name, getattr(self, name))

    def begin(self, make_model: Any, facts: Facts, rng: Streams) -> Any:
        """Begins a run."""
        self.facts = facts
        state = self._call("begin", "", {"the facts": facts}, make_model, facts, rng)
        self._check_tree("begin", "the state", self.method.State, state)
        self.state = state
        return state

    def plan(self, state: Any, moment: Moment, rng: Streams) -> Exchange | None:
        """Plans an exchange."""
        exchange = self._call("plan", "", {"the state": state}, state, moment, rng)
        if exchange is None:
            return None
        if not isinstance(exchange, Exchange):
            self.findings.add(f"plan returns a {type(exchange).__name__}, not an Exchange or None")
            raise TrialOver
        self._check_exchange(exchange)
        return exchange

    def visit(self, client: Client, memory: Any, received: Message, rng: Streams) -> Visit[Any]:
        """A client's work."""
        place = described(client.id)
        given = {
            "the received weights": received.weights,
            "the received payload": received.payload,
            "the client's memory": memory,
            **_parts_of(client),
        }
        samples = Watched.of(client.samples)
        client = client.with_only(samples, held_out=client.held_out)
        visit = self._call("visit", place, given, client, memory, received, rng)
        if samples.forsaken:
            self.findings.add(
                "visit trains on samples and leaves out some whose labels it has to trust: "
                "client.samples.trusted says which (learning.train.train keeps them by itself)",
                place,
            )
        if not (isinstance(visit, Visit) and isinstance(visit.reply, Reply)):
            self.findings.add("visit has to return a Visit with a Reply in it", place)
            raise TrialOver
        if visit.reply.client != client.id:
            self.findings.add("visit replies as another client: Reply.client is client.id", place)
            raise TrialOver
        self._check_tree("visit", "the memory", self.method.Memory, visit.memory, place)
        self._check_diary(received.kind, visit, place)
        for name, value in visit.reply.payload.items():
            self.shapes[received.kind, name][len(client)] = np.shape(value)
        for name in visit.reply.metrics:
            self.shapes[received.kind, name][len(client)] = ()
        return visit

    def merge(self, state: Any, exchange: Exchange, replies: Replies) -> Any:
        """The server's work."""
        kind = exchange.message.kind
        if kind not in self.planned:
            alone = f"merge, where nobody answers to {kind!r},"
            self._call(alone, "", {}, state, exchange, Nobody(exchange))
        self.planned.add(kind)
        lent = Lent(replies)
        merged = self._call("merge", "", {"the state": state}, state, exchange, lent)
        if not lent.all_taken:
            self.findings.add(
                "merge stops before the last reply: iterate over `replies` to its end, as clients "
                "work while their replies are taken"
            )
        self._check_tree("merge", "the state", self.method.State, merged)
        self.state = merged
        if lent.kept_by(merged) or not _finite(self.method.weights(merged)):
            self.findings.add(
                "merge keeps weights of a reply, which are only lent and change when the next one "
                "is taken: keep a copy, feddiv.methods.copied(reply.weights)"
            )
            raise TrialOver
        return merged

    def predict(self, nets: Nets, inputs: Tensor) -> Tensor:
        """The global model's outputs."""
        logits = self._call("predict", "", {"its inputs": inputs}, nets, inputs)
        assert self.facts is not None
        wanted = (len(inputs), len(self.facts.classes))
        if not isinstance(logits, torch.Tensor) or tuple(logits.shape) != wanted:
            shape = tuple(getattr(logits, "shape", ()))
            self.findings.add(f"predict gives shape {shape} for inputs that want {wanted}")
            raise TrialOver
        return logits

    def assess(self, client: Client, memory: Any, received: Message) -> Assessment:
        """A client's opinion of its labels."""
        place = described(client.id)
        given = {"the client's memory": memory, **_parts_of(client)}
        opinion = self._call("assess", place, given, client, memory, received)
        if not isinstance(opinion, Assessment):
            self.findings.add("assess has to return an Assessment", place)
            raise TrialOver
        for name in ("predicted", "p_clean", "scores"):
            value = getattr(opinion, name)
            if value is not None and np.shape(value) != (len(client),):
                self.findings.add(
                    f"assess: {name} has to have one entry for each of the client's samples", place
                )
                raise TrialOver
        corrected, samples = opinion.corrected, client.samples
        if corrected is not None and (samples.kept(corrected.labels) != corrected.labels).any():
            self.findings.add(
                "assess: labels that it has to trust (client.samples.trusted) were changed", place
            )
        quality = opinion.p_clean
        if quality is not None and not ((quality >= 0) & (quality <= 1)).all():
            self.findings.add("assess: p_clean has to lie between 0 and 1", place)
        return opinion

    def records(self, state: Any) -> dict[str, Any]:
        """What goes into the record of a round."""
        records: dict[str, Any] = self._call("records", "", {"the state": state}, state)
        self._check_json("records", records, "")
        return records

    def _call(self, what: str, place: str, given: Mapping[str, object], *arguments: Any) -> Any:
        """Call the method; it may change nothing that was `given`, nor itself."""
        name = what.partition(",")[0]
        before = {key: snapshot(value) for key, value in given.items()}
        attributes, generators = self._attributes(), Generators()
        try:
            result = self._calls[name](*arguments)
        except Exception as problem:
            raise self.findings.failed(what, problem, place) from problem
        for generator in generators.used():
            self.findings.add(
                f"{name} draws from or seeds {generator}: use {REMEDIES[generator]}", place
            )
        for key, value in given.items():
            if snapshot(value) != before[key]:
                self.findings.add(f"{name} changes {key}: it may only return something new", place)
        self._check_attributes(name, attributes, place)
        return result

    def _attributes(self) -> dict[str, object]:
        mine = {key: value for key, value in vars(self.method).items() if key not in NOT_ITS_OWN}
        return {key: snapshot(value) for key, value in mine.items()}

    def _check_attributes(self, name: str, before: Mapping[str, object], place: str) -> None:
        after = self._attributes()
        lasting = "the client's memory" if name in ("visit", "assess") else "the state"
        for key in sorted((after.keys() | before.keys()) - self._changing):
            if after.get(key) != before.get(key):
                self._changing.add(key)
                self.findings.add(
                    f"{name} changes self.{key}, which is lost in a worker and after a resume: "
                    f"what lasts belongs into {lasting}",
                    place,
                )

    def _check_exchange(self, exchange: Exchange) -> None:
        assert self.facts is not None
        unknown = sorted(set(exchange.clients) - self.facts.sizes.keys())
        if unknown:
            self.findings.add(f"plan asks client {unknown[0]}, which never said hello")
            raise TrialOver
        if len(set(exchange.clients)) < len(exchange.clients):
            self.findings.add("plan asks a client twice in one exchange")
        kind = exchange.message.kind
        declared = self.method.kinds(self.facts).get(kind)
        for message in (exchange.message, *exchange.personal.values()):
            if message.kind != kind:
                self.findings.add(
                    f"plan mixes messages of the kinds {kind!r} and {message.kind!r} in an exchange"
                )
            for name in message.payload:
                if declared is not None and name not in declared.message:
                    self.findings.add(
                        f"plan sends {name!r} in messages of kind {kind!r}, where kinds() declares "
                        f"{', '.join(map(repr, declared.message)) or 'nothing'} (Kind(message=...))"
                    )

    def _check_tree(self, name: str, what: str, kind: Any, value: Any, place: str = "") -> None:
        """A checkpoint holds states and memories: they have to survive being written and read."""
        try:
            record = pack(value)
        except NotATree as problem:
            self.findings.add(f"{name}: {what} cannot be written down: {problem}", place)
            raise TrialOver from problem
        try:
            there = unpack(kind, record)
            reason = "something else comes back"
        except NotATree as problem:
            there, reason = None, str(problem)
        if snapshot(dismantle(there)) != snapshot(dismantle(value)):
            self.findings.add(
                f"{name}: {what} is a {type(value).__name__} that cannot be read back as "
                f"{getattr(kind, '__name__', kind)}, which the method is derived with "
                f"(Method[State, Memory], Averaging[Memory]): {reason}",
                place,
            )
            raise TrialOver

    def _check_diary(self, kind: str, visit: Visit[Any], place: str) -> None:
        try:
            line = client_line(kind, visit.reply, visit.diary)
            round_line([Seen(visit.reply, visit.diary)])
        except Exception as problem:
            what = "recording visit's diary, whose keys feddiv.runs.journal explains,"
            raise self.findings.failed(what, problem, place) from problem
        self._check_json("visit", line, place)

    def _check_json(self, name: str, line: Mapping[str, Any], place: str) -> None:
        for key, value in line.items():
            try:
                json.dumps(value)
            except (TypeError, ValueError):
                self.findings.add(
                    f"{name}: {key!r} is a {type(value).__name__}, and a record holds plain "
                    "numbers, texts and lists",
                    place,
                )
                raise TrialOver from None


def _parts_of(client: Client) -> dict[str, object]:
    samples = client.samples
    parts = {
        name: getattr(samples, name) for name in ("given", "truth", "trusted", "index", "inputs")
    }
    return {f"client.samples.{name}": value for name, value in parts.items()}


def _finite(weights: Weights) -> bool:
    tensors = [value for state in weights.values() for value in state.values()]
    return all(bool(each.isfinite().all()) for each in tensors)

"""Clients that lie: they do their work honestly, and then say something else.

A hostile site can send whatever passes for a reply. `LyingInProcess` and `LyingWorkers` are the
real federations, but for what the liars among their clients say: of their scores and labels, of
their models, of how many samples they have, and of who they are. What a client says of its scores
goes up as changes; a liar keeps account of what it has said, so that the server adds its lies up to
what the attack wants.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from feddiv.core.arrays import Array, StateDict
from feddiv.core.randomness import Streams
from feddiv.federation.in_process import InProcess
from feddiv.federation.simulation import Simulation
from feddiv.federation.worker_pool import Workers
from feddiv.learning.average import copied
from feddiv.learning.predict import predict_global, predict_local
from feddiv.learning.score import LOG_ODDS_CLIP
from feddiv.methods.contract import (
    Client,
    Exchange,
    Facts,
    Kind,
    Message,
    Payload,
    Reply,
    Visit,
    declared_kind,
)
from feddiv.methods.feddiv.feddiv_options import FedDivOptions
from feddiv.methods.feddiv.filter_client import ClientFilter, FilterMemory
from feddiv.methods.feddiv.second_opinion import least_log_likelihood

HUGE = 1e300
LARGEST = 3.4e38  # nearly the largest float32
BARELY = 1e-6  # a weight or a variance that is all but nothing
MUCH = 1000  # times its n_k that a client says it has


@dataclass(frozen=True)
class Scene:
    """What a liar knows when it lies: its samples, what it received, its honest reply."""

    client: Client
    received: Message
    honest: Reply
    options: Any  # of the method
    rng: Streams

    @property
    def samples(self) -> int:
        """Its true n_k."""
        return len(self.client)


def honest(totals: Payload, scene: Scene) -> Payload:
    """The truth."""
    return totals


# What is said of the filter, as totals over the client's samples


def not_finite(totals: Payload, scene: Scene) -> Payload:
    """NaN in every entry."""
    return {name: np.full_like(value, np.nan) for name, value in totals.items()}


def huge(totals: Payload, scene: Scene) -> Payload:
    """Numbers that drown everybody else's."""
    return {name: np.full_like(value, HUGE) for name, value in totals.items()}


def below_zero(changes: Payload, scene: Scene) -> Payload:
    """Changes within the declared bounds whose total is no count of anything."""
    size = float(scene.samples)
    return {
        name: np.full_like(value, -size) if name == "histogram" else value
        for name, value in changes.items()
    }


def swapped(totals: Payload, scene: Scene) -> Payload:
    """Clean labels look as wrong ones do, and wrong ones as clean ones do."""
    lies = dict(totals)
    if "histogram" in totals:
        lies["histogram"] = totals["histogram"][::-1].copy()
    if "mixture" in totals:
        lies["mixture"] = totals["mixture"][[1, 0, 3, 2, 5, 4]]
    if "tally" in totals:
        given, kept, scores = totals["tally"]
        lies["tally"] = np.stack([given, given - kept, -scores])
    return lies


def all_clean(totals: Payload, scene: Scene) -> Payload:
    """Every label looks right: as far to that side as a client of this size can say."""
    return _one_sided(totals, scene, clean=True)


def all_noisy(totals: Payload, scene: Scene) -> Payload:
    """Every label looks wrong."""
    return _one_sided(totals, scene, clean=False)


def _one_sided(totals: Payload, scene: Scene, *, clean: bool) -> Payload:
    end, size, lies = 0 if clean else -1, scene.samples, dict(totals)
    if "histogram" in totals:
        lies["histogram"] = _all_at(end, totals["histogram"], size)
    if "mixture" in totals:
        # Scores of `paper` are between 0 and 1. Both means at one end, and the component that shall
        # swallow everything as wide and as heavy as can be.
        first, last = (1 - BARELY, BARELY) if clean else (BARELY, 1 - BARELY)
        mean = 1.0 if clean else 0.0
        lies["mixture"] = np.array([mean, mean, first, last, first, last])
    if "tally" in totals:
        given = totals["tally"][0]
        kept, score = (given, -LOG_ODDS_CLIP) if clean else (0 * given, LOG_ODDS_CLIP)
        lies["tally"] = np.stack([given, kept, score * given])
    if "likelihood" in totals:
        # A model that is called less sure than it is flags less, and the other way round.
        least = least_log_likelihood(scene.client.classes) * size
        likelihood = np.full_like(totals["likelihood"], least)
        likelihood[end] = 0.0
        lies["likelihood"] = likelihood
    return lies


def one_class(totals: Payload, scene: Scene) -> Payload:
    """All labels and all predictions are of the first class."""
    lies, size = dict(totals), scene.samples
    if "softmax" in totals:
        lies["softmax"] = _all_at(0, totals["softmax"], size)
    if "tally" in totals:
        tally = np.zeros_like(totals["tally"])
        tally[:, 0] = size, size, -LOG_ODDS_CLIP * size
        lies["tally"] = tally
    return lies


def _all_at(place: int, like: Array, size: int) -> Array:
    counts = np.zeros_like(like)
    counts[place] = size
    return counts


def others_labels(totals: Payload, scene: Scene) -> Payload:
    """The true scores of its images under labels that belong to other images of its own."""
    client, options, received = scene.client, scene.options, scene.received
    if not isinstance(options, FedDivOptions) or not totals:
        return totals
    given = client.samples.given.numpy()
    labels = scene.rng.numpy("somebody else's labels").permutation(given)
    said = ClientFilter(options.filter, client.classes, FilterMemory(), received.payload)
    logits = predict_global(client.net(received.weights["net"]), client.samples)
    scores = said.scores(logits, labels)
    p_clean = said.p_clean(scores, labels, None, said.sharpened(logits, labels))
    trained = scene.honest.weights
    if options.filter.fits_local_scores and trained is not None:
        after = predict_local(client.net(trained["net"]), client.samples)
        said.keep(said.scores(after, labels))
    else:
        said.keep(scores)
    uploaded = said.upload(totals, logits=logits, labels=labels, scores=scores, p_clean=p_clean)
    return {**totals, **uploaded}


def fully_trusted(totals: Payload, scene: Scene) -> Payload:
    """The truth, but that all its labels are to be trusted: its model shall count in full."""
    if "trusted" not in totals:
        return totals
    return {**totals, "trusted": np.array(float(scene.samples))}


# What is sent for a model


def times(factor: float) -> Callable[[StateDict, StateDict], StateDict]:
    """The update, from the received model to the trained one, this many times.

    Batch-norm statistics stay as they are: a variance below zero would give the liar away.
    """

    def scaled(key: str, before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
        return after if "running_" in key else before + factor * (after - before)

    return lambda received, trained: _floats(
        trained, lambda key, value: scaled(key, received[key], value)
    )


def largest_numbers(received: StateDict, trained: StateDict) -> StateDict:
    """Nearly the largest number that there is, everywhere."""
    return _floats(trained, lambda key, value: torch.full_like(value, LARGEST))


def negative_variances(received: StateDict, trained: StateDict) -> StateDict:
    """Batch-norm variances below zero, whose roots are not numbers."""
    return _floats(trained, lambda key, value: -value if key.endswith("running_var") else value)


def _floats(
    net: StateDict, change: Callable[[str, torch.Tensor], torch.Tensor]
) -> dict[str, torch.Tensor]:
    return {
        key: change(key, value) if value.is_floating_point() else value
        for key, value in net.items()
    }


@dataclass(frozen=True)
class Attack:
    """What a liar changes of its honest reply."""

    totals: Callable[[Payload, Scene], Payload] = honest
    changes: Callable[[Payload, Scene], Payload] = honest  # for lies that make no total
    model: Callable[[StateDict, StateDict], StateDict] | None = None
    size: int = 1  # n_k, and with it all totals, are said to be so many times what they are
    disguised: bool = False  # answers under an honest client's number

    @property
    def needs_filter(self) -> bool:
        """Whether there is nothing to lie about without a filter."""
        return self.model is None


FLIPPED = times(-1)
NONE = "none"
ATTACKS: Mapping[str, Attack] = {
    NONE: Attack(),
    # of the filter
    "not finite": Attack(not_finite),
    "huge": Attack(huge),
    "counts below zero": Attack(changes=below_zero),
    "swapped components": Attack(swapped),
    "all clean": Attack(all_clean),
    "all noisy": Attack(all_noisy),
    "one class": Attack(one_class),
    "somebody else's labels": Attack(others_labels),
    # of the model
    "update × −1": Attack(fully_trusted, model=FLIPPED),
    "update × −10": Attack(fully_trusted, model=times(-10)),
    "update × 100": Attack(fully_trusted, model=times(100)),
    "largest numbers": Attack(fully_trusted, model=largest_numbers),
    "negative variances": Attack(fully_trusted, model=negative_variances),
    # of who it is
    "n_k × 1000, update × −1": Attack(fully_trusted, model=FLIPPED, size=MUCH),
    "answers for another, update × −1": Attack(fully_trusted, model=FLIPPED, disguised=True),
}


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

    def visits(self, exchange: Exchange, rng: Streams) -> Iterator[Visit[Any]]:
        """All clients do their work; then liars say something else."""
        kind = declared_kind(self.workspace.method, self.facts, exchange)
        for visit in super().visits(exchange, rng):  # type: ignore[safe-super]
            client, self._pending = visit.reply.client, None
            if client not in self.liars:
                yield visit
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
            yield replace(visit, reply=self._told(reply, scene, kind, exchange))

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

"""A server that keeps to the protocol and is curious: what it makes of what one client sends.

It knows the model, the filter, every n_k and how messages are made. Entries that go up as changes
are added up. A masked entry is read as the number that it would be without its mask.
"""

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from feddiv.core.arrays import Array
from feddiv.core.randomness import Streams
from feddiv.data import Draw
from feddiv.federation.carrying import carriage_of
from feddiv.federation.client_memory import MemoryRecords
from feddiv.federation.federation import Absence
from feddiv.federation.in_process import InProcess
from feddiv.federation.visit import make_visit
from feddiv.federation.workspace import Workspace
from feddiv.learning.gaussian_mixture import Mixture, own_weights
from feddiv.learning.quality import auroc
from feddiv.learning.score import LOG_ODDS_CLIP
from feddiv.methods.contract import Exchange, Kind, Message, Payload
from feddiv.methods.feddiv.filter import BINS
from feddiv.privacy.options import PrivacyOptions
from feddiv.privacy.sum_client import BITS
from feddiv.runs.prepare import Prepared

AVERAGES = ("mixture",)  # entries that do not grow with n_k
FLOOR = 1e-3  # of a spread between clients, per sample
COMPANY = 4  # clients of an exchange in the game, where a secret sum needs company


@dataclass(frozen=True)
class Seen:
    """What the server has of one client: totals as they add up, the newest of everything else."""

    samples: int
    entries: dict[str, Array] = field(default_factory=dict)

    def added(self, payload: Payload, kind: Kind, sent: Message) -> "Seen":
        """With one more reply."""
        entries = dict(self.entries)
        for name, value in as_numbers(payload, kind, sent).items():
            if kind.reply[name].pooled == "change" and name in entries:
                value = entries[name] + value
            entries[name] = value
        return replace(self, entries=entries)


def as_numbers(payload: Payload, kind: Kind, sent: Message) -> dict[str, Array]:
    """The entries of a reply; masked ones (words of 64-bit numbers) as numbers of their scale."""
    pooled = sorted(name for name, entry in kind.reply.items() if entry.pooled)
    found = {}
    for name, value in payload.items():
        array = np.asarray(value, np.float64)
        if name in pooled and array.shape[1:] == kind.reply[name].shape and len(array) == 2:
            upper, lower = array.astype(np.uint64)
            words = (upper << np.uint64(32) | lower).view(np.int64)
            array = words / 2.0 ** sent.payload[BITS][pooled.index(name)]
        found[name] = array
    return found


# A client's share of wrong labels


def noise_rate_errors(
    notes: Mapping[int, Seen], mixture: Array, truth: Mapping[int, float]
) -> dict[str, float]:
    """Mean error over clients, by what it is read from; a blind guess is the mean of all clients.

    The server could know that mean from the pooled filter.
    """
    guesses = {client: noise_rates(seen, mixture) for client, seen in notes.items()}
    middle = float(np.mean(list(truth.values())))
    errors = {"blind": float(np.mean([abs(rate - middle) for rate in truth.values()]))}
    for source in sorted({name for each in guesses.values() for name in each}):
        missed = [abs(each.get(source, middle) - truth[client]) for client, each in guesses.items()]
        errors[source] = float(np.mean(missed))
    return errors


def noise_rates(seen: Seen, mixture: Array) -> dict[str, float]:
    """Guesses of one client's share of wrong labels."""
    entries, guesses = seen.entries, dict[str, float]()
    if "mixture" in entries:
        guesses["mixture"] = float(entries["mixture"][5])
    if "histogram" in entries:
        guesses["histogram"] = _by_histogram(entries["histogram"], seen.samples, mixture)
    if "tally" in entries:
        kept = entries["tally"][1]
        guesses["tally"] = 1 - float(np.clip(kept.sum() / seen.samples, 0, 1))
    if "trusted" in entries:
        guesses["trusted"] = 1 - float(np.clip(entries["trusted"] / seen.samples, 0, 1))
    return guesses


def _by_histogram(counts: Array, samples: int, mixture: Array) -> float:
    """The weight of the pooled filter's noisy component that suits this histogram best."""
    counts = np.maximum(counts, 0.0)
    if not counts.sum():
        return 0.5
    counts = np.rint(counts * samples / counts.sum()).astype(np.int64)
    width = 2 * LOG_ODDS_CLIP / BINS
    centres = -LOG_ODDS_CLIP + width * (np.arange(BINS) + 0.5)
    own = own_weights(np.repeat(centres, counts), Mixture.unpacked(mixture))
    return float(own.weights[1])


# How many labels of each class it has


def class_balance_errors(
    notes: Mapping[int, Seen], truth: Mapping[int, npt.NDArray[np.int64]]
) -> dict[str, float]:
    """Mean total variation distance, by what it is read from; a blind guess is the uniform."""
    errors: dict[str, list[float]] = {}
    for client, seen in notes.items():
        true = truth[client] / truth[client].sum()
        guesses = {"blind": np.full(len(true), 1 / len(true)), **class_balances(seen)}
        for source, guess in guesses.items():
            errors.setdefault(source, []).append(float(np.abs(guess - true).sum() / 2))
    return {source: float(np.mean(distances)) for source, distances in errors.items()}


def class_balances(seen: Seen) -> dict[str, Array]:
    """Guesses of one client's class distribution."""
    read = {}
    if "tally" in seen.entries:
        read["tally"] = seen.entries["tally"][0]
    if "softmax" in seen.entries:
        read["predictions"] = seen.entries["softmax"]
    found = {}
    for source, counts in read.items():
        counts = np.maximum(counts, 0.0)
        if counts.sum():
            found[source] = counts / counts.sum()
    return found


# Whether it holds one given sample


@dataclass
class Game:
    """A client holds a sample, or one of somebody else in its place: which of the two?

    The server sees what the client sends, beside its weights, when it is asked to train. One that
    *knows the rest* has all other samples of the client and both candidates: it works out what the
    client would send in both cases (by training of its own, as it does not know how the client's
    was drawn), and takes the nearer one. This is the game that differential privacy is about. One
    that *knows the sample* has that sample alone, and compares with what clients send on average.
    """

    prepared: Prepared
    message: Message
    notes: Mapping[int, Seen]
    rng: Streams

    def played(self, trials: int) -> dict[str, float]:
        """Area under the ROC curve over so many trials of each case: 0.5 is a blind guess."""
        draw, dice = self.prepared.draw, self.rng.numpy("game")
        statistics = np.zeros((2, trials, 2))  # case, trial, server
        for trial in range(trials):
            client = int(dice.integers(len(draw.parts)))
            row = int(dice.integers(len(draw.parts[client])))
            others = np.setdiff1d(np.concatenate(draw.parts), draw.parts[client])
            stranger = int(dice.choice(others))
            held = draw.parts[client]
            cases = held, np.append(np.delete(held, row), stranger)
            expected = [self._alone(client, part, trial) for part in cases]
            without = self._alone(client, np.delete(held, row), trial)
            for case, part in enumerate(cases):
                seen = self._seen(client, part, trial)
                rest = _gap(seen, expected[1]) - _gap(seen, expected[0])
                own = {
                    name: v - without[name] for name, v in expected[0].items() if name in without
                }
                statistics[case, trial] = rest, self._likeness(client, seen, own)
        member = np.repeat([True, False], trials)
        return {
            server: float(auroc(-statistics[:, :, place].reshape(-1), member) or 0.0)
            for place, server in enumerate(("knows the rest", "knows the sample"))
        }

    def _likeness(self, client: int, seen: Mapping[str, Array], own: Payload) -> float:
        """How much of the sample's own part is in what differs from an average client."""
        size, total = len(self.prepared.draw.parts[client]), 0.0
        for name, value in seen.items():
            if name not in own:
                continue  # the sample alone decides whether there is anything to say
            rows = np.array([_rate(n, name) for n in self.notes.values() if name in n.entries])
            scale = 1 if name in AVERAGES else size
            spread = (rows.std(axis=0) + FLOOR) * scale
            total += float(((value - rows.mean(axis=0) * scale) * own[name] / spread**2).sum())
        return total

    def _alone(self, client: int, part: npt.NDArray[np.int64], trial: int) -> Payload:
        """What the client would send without a private filter, if it held these samples."""
        workspace = self._workspace(client, part, private=False)
        records = MemoryRecords(workspace.method.Memory, None)
        rng = self.rng.at(round=trial + 1, client=client).within("server's own")
        return make_visit(workspace, records, self.message, None, rng).reply.payload

    def _seen(self, client: int, part: npt.NDArray[np.int64], trial: int) -> Mapping[str, Array]:
        """What the server sees of the client, if it holds these samples."""
        workspace = self._workspace(client, part, private=True)
        federation = InProcess(workspace)
        method, rng = workspace.method, self.rng.at(round=trial + 1)
        clients = (client, *(c for c in range(len(self.prepared.draw.parts)) if c != client))
        company = COMPANY if workspace.privacy.filter == "sum_only" else 1
        exchange = Exchange(tuple(sorted(clients[:company])), self.message)
        kind = method.kinds(federation.facts)[self.message.kind]
        carriage = carriage_of(
            method, federation, exchange, kind, rng, workspace.privacy, lambda line: None
        )
        for visit in carriage.visits():
            if not isinstance(visit, Absence) and visit.reply.client == client:
                return as_numbers(visit.reply.payload, kind, carriage.exchange.to(client))
        raise RuntimeError("the client did not answer")

    def _workspace(self, client: int, part: npt.NDArray[np.int64], *, private: bool) -> Workspace:
        """The clients' work, with these samples at one of them."""
        parts = list(self.prepared.draw.parts)
        parts[client] = part
        draw: Draw = replace(self.prepared.draw, parts=tuple(parts))
        workspace = copy(self.prepared.workspace)  # nets and data stay where they are
        workspace.draw = draw
        if not private:
            workspace.privacy = PrivacyOptions()
        return workspace


def _gap(seen: Mapping[str, Array], expected: Payload) -> float:
    """How far what was seen is from what was expected."""
    return sum(
        float(((value - expected[name]) ** 2).sum())
        for name, value in seen.items()
        if name in expected
    )


def _rate(note: Seen, name: str) -> Array:
    """What a client has sent for each of its samples."""
    return np.asarray(note.entries[name] / (1 if name in AVERAGES else note.samples))

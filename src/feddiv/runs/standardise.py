"""Standardisation that clients agree on: their sums become one mean and one spread per feature."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from feddiv.core.arrays import Array, Mask
from feddiv.core.errors import UserError
from feddiv.core.randomness import Streams
from feddiv.data.scaling import Scaling
from feddiv.data.statistics import safe_std
from feddiv.defence.defence import FAR_OUT, FEWEST, Defence
from feddiv.federation.federation import Absence, Federation
from feddiv.federation.reply_check import Refused, check_reply, check_sender
from feddiv.federation.traffic import message_bytes, reply_bytes
from feddiv.learning.robust import CentreRule, capped_sizes
from feddiv.methods.contract import Exchange, Message, Reply
from feddiv.methods.feature_sums import KIND, contradiction, sums_kind
from feddiv.runs.journal import Record

NORMAL = 1.4826  # median distances from the median, in standard deviations


@dataclass(frozen=True)
class Standard:
    """What vectors are standardised by in a run, and the bytes that it took to find out.

    Attempts that too few answered took some too.
    """

    mean: Array
    std: Array
    bytes_up: int
    bytes_down: int

    @property
    def scaling(self) -> Scaling:
        """Without its cost."""
        return Scaling(self.mean, self.std)


def agreed_standard(
    federation: Federation, defence: Defence, rng: Streams, note: Callable[[Record], None]
) -> Standard:
    """Ask all clients for their sums; `note` is told what came of it, client by client."""
    failures = bytes_up = bytes_down = 0
    while True:
        here = rng.within(f"attempt {failures}") if failures else rng
        asking = Asking(federation, note)
        asking.ask(here)
        bytes_up, bytes_down = bytes_up + asking.bytes_up, bytes_down + asking.bytes_down
        if federation.enough(asking.answered, len(federation.facts.sizes)):
            break
        failures += 1
        federation.regroup(failures)
    if not asking.sums:
        raise UserError(
            "data.standardise=clients: no client has told its sums (clients.jsonl says why); "
            "data.standardise=source does without"
        )
    mean, std = _together(asking.sums, defence, federation, note)
    return Standard(mean, std, bytes_up, bytes_down)


class Asking:
    """One exchange with all clients: `sums` has what came, checked, by client."""

    def __init__(self, federation: Federation, note: Callable[[Record], None]) -> None:
        self.federation, self.note = federation, note
        self.sums: dict[int, Reply] = {}
        self.answered = self.bytes_up = self.bytes_down = 0

    def ask(self, rng: Streams) -> None:
        """Everybody, once."""
        facts, message = self.federation.facts, Message(KIND)
        asked, done = tuple(facts.sizes), set[int]()
        for visit in self.federation.visits(Exchange(asked, message), rng):
            if isinstance(visit, Absence):
                self.note({"client": visit.client, "kind": KIND, "missing": visit.reason})
                continue
            reply = visit.reply
            self.bytes_up += reply_bytes(reply)
            self.bytes_down += message_bytes(message)
            try:
                check_sender(reply.client, asked, done)
                size = facts.sizes[reply.client]
                check_reply(reply, sums_kind(facts.input_shape[0], size), message, size)
                if why := contradiction(reply.payload, size):
                    raise Refused(why)
            except Refused as reason:
                why = self.federation.refuse(reply.client, str(reason))
                self.note({"client": reply.client, "kind": KIND, "refused": why})
                continue
            done.add(reply.client)
            self.note({"client": reply.client, "kind": KIND, "samples": size})
            if reply.payload:
                self.sums[reply.client] = reply
        self.answered = len(done)


def _together(
    sums: dict[int, Reply],
    defence: Defence,
    federation: Federation,
    note: Callable[[Record], None],
) -> tuple[Array, Array]:
    """Mean and spread [D] of all clients' features."""
    replies = list(sums.values())
    sizes = np.array([reply.samples for reply in replies], np.float64)[:, None]
    means = np.stack([np.asarray(reply.payload["sum"]) for reply in replies]) / sizes
    squares = np.stack([np.asarray(reply.payload["squares"]) for reply in replies]) / sizes
    weights = np.array([float(defence.size(reply.samples)) for reply in replies])
    rule = CentreRule(defence.robust.filter, defence.robust.trim)
    if rule.robust:
        weights = capped_sizes(weights)
        mean, square = rule.of(means, weights), rule.of(squares, weights)
        variance = np.maximum(square - mean**2, 0.0)
    else:
        variances = np.maximum(squares - means**2, 0.0)
        likely = plausible(means, variances)
        for client, row, features in zip(sums, likely, means, strict=True):
            if not row.all():
                first = int(np.argmin(row))
                why = federation.refuse(
                    client,
                    f"{(~row).sum()} of {len(row)} features are unlike those of others and do not "
                    f"count, the first is number {first} with mean {features[first]:.3g}",
                )
                note({"client": client, "kind": KIND, "left_out": why})
        counted = weights[:, None] * likely
        total = counted.sum(axis=0)
        mean = (counted * means).sum(axis=0) / total
        # Not from the sum of all squares: that has lost what is small beside the mean.
        variance = (counted * (variances + (means - mean) ** 2)).sum(axis=0) / total
        square = variance + mean**2
    return mean, safe_std(np.sqrt(variance), np.sqrt(square))


def plausible(means: Array, variances: Array) -> Mask:
    """Which of the clients' features [K, D] are not far from those of most clients.

    A feature's usual spread is that inside a median client and that between clients together. Where
    most have no spread at all, as of a feature that is hardly ever there, that of a usual feature
    stands for it. More than half of the clients always count.
    """
    if len(means) < FEWEST:
        return np.ones(means.shape, dtype=bool)
    centre = np.median(means, axis=0)
    between = NORMAL * np.median(np.abs(means - centre), axis=0)
    usual = np.sqrt(np.median(variances, axis=0) + between**2)
    some = usual[usual > 0]
    usual = np.where(usual > 0, usual, np.median(some) if len(some) else 0.0)
    far = FAR_OUT * usual + 1e-9 * np.abs(centre)
    return np.asarray((np.abs(means - centre) <= far) & (np.sqrt(variances) <= far))

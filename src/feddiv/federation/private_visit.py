"""A client's side of a private filter, around one visit: the steps of a secure sum, masks, noise.

What is protected, and how, follows from the client's own declaration of the method under the run's
config. What a message asks for beyond that declaration gets no answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from feddiv.core.errors import UserError
from feddiv.core.randomness import Streams
from feddiv.federation.workspace import Workspace
from feddiv.methods.contract import Facts, Kind, Message, Payload, Reply
from feddiv.methods.held_out_counts import KIND, counts_kind
from feddiv.privacy.noise import Grant, NoiseMemory, NoisePlan, by_count, noise_plan, noised
from feddiv.privacy.primitives import derived
from feddiv.privacy.roster import CLIENTS, KEYS, Roster
from feddiv.privacy.sum_client import (
    BITS,
    LETTERS,
    MEMBERS,
    SHARES,
    STEP_KEYS,
    STEP_LETTERS,
    STEPS,
    SURVIVORS,
    Member,
)
from feddiv.privacy.totals import layout_of, pooled
from feddiv.privacy.words import MOST_BITS

OURS = (CLIENTS, KEYS, MEMBERS, BITS)  # what the carrier adds to a method's message


@dataclass(frozen=True)
class Own:
    """What a real site has of its own, and no server knows.

    `secret` is of the site and the run. `grant` says whether one more noisy total may be new.
    """

    secret: bytes
    grant: Grant | None = None


@dataclass(frozen=True)
class Protection:
    """A client in one exchange of a run with a private filter."""

    workspace: Workspace
    rng: Streams
    own: Own | None = None  # None: in a simulation, whose secrets follow from the seed

    @property
    def active(self) -> bool:
        """Whether there is a private filter."""
        return self.workspace.privacy.filter != "none"

    @property
    def secret(self) -> bytes:
        """The client's own, of this exchange alone."""
        rng = self.rng
        own = self.own
        root = Streams(rng.seed, client=rng.client).numpy("privacy").bytes(32)
        root = root if own is None else own.secret
        return derived(root, f"{rng.round}/{rng.exchange}/{rng.client}/{rng.part}")

    @property
    def member(self) -> Member:
        """The client in a secure sum."""
        return Member(self.rng.client, self.secret, self.workspace.privacy.threshold)

    @property
    def facts(self) -> Facts:
        """What the client knows: itself."""
        dataset, draw = self.workspace.dataset, self.workspace.draw
        sizes = {self.rng.client: len(draw.parts[self.rng.client])}
        return Facts(dataset.classes, dataset.input_shape, sizes, draw.iid)

    def kind(self, name: str) -> Kind:
        """What the client's own software declares of a kind of exchange."""
        if name == KIND:
            return counts_kind(self.facts, 0)
        return self.workspace.method.kinds(self.facts).get(name, Kind())

    def binds(self, message: Message) -> bool:
        """Whether two different answers to such a message could give the client away."""
        if self.workspace.privacy.filter != "sum_only" or message.kind == STEP_KEYS:
            return False
        return is_step(message) or bool(pooled(self.kind(message.kind)))

    # The steps of a secure sum

    def step(self, message: Message) -> Payload:
        """What the client says in a step that is not the method's."""
        if self.workspace.privacy.filter != "sum_only":
            raise UserError(f"{message.kind}: this run makes no secure sums")
        member, said = self.member, message.payload
        if message.kind == STEP_KEYS:
            return {KEYS: member.keys()}
        roster = Roster.read(said)
        if message.kind == STEP_LETTERS:
            return member.letters(roster)
        members, survivors = roster.chosen(said[MEMBERS]), roster.chosen(said[SURVIVORS])
        return {SHARES: member.shares(roster, members, survivors, said[LETTERS])}

    # What is done to a message and to a reply

    def received(self, message: Message) -> Message:
        """The message as the method sent it; refused if it could be none of the method's."""
        payload = {name: value for name, value in message.payload.items() if name not in OURS}
        if extra := sorted(payload.keys() - self._expected(message.kind)):
            raise UserError(
                f"privacy: a message of kind {message.kind!r} carries {extra[0]!r}, which the "
                "method does not declare"
            )
        return replace(message, payload=payload)

    def _expected(self, kind: str) -> set[str]:
        """What a message may carry; an examination has no declaration of its own."""
        if kind != KIND:
            return set(self.kind(kind).message)
        kinds = self.workspace.method.kinds(self.facts).values()
        return {name for each in kinds for name in each.message}

    def protected(
        self, reply: Reply, message: Message, before: Callable[[], NoiseMemory]
    ) -> tuple[Reply, NoiseMemory | None]:
        """The reply as it is sent, and what the client remembers of its noise."""
        kind = self.kind(message.kind)
        if extra := sorted({*reply.payload, *reply.metrics} - kind.reply.keys()):
            raise UserError(
                f"privacy: a reply of kind {message.kind!r} carries {extra[0]!r}, which the method "
                "does not declare"
            )
        if not pooled(kind):
            return reply, before() if self.workspace.privacy.filter == "dp" else None
        if self.workspace.privacy.filter == "sum_only":
            return replace(reply, payload=self._masked(reply.payload, kind, message.payload)), None
        plan = plan_of(self.workspace, self.facts)
        given = None if self.own is None else self.own.grant
        grant = given or by_count(plan.uploads)
        payload, noise = noised(reply.payload, kind, before(), plan, self.secret, grant)
        return replace(reply, payload=payload), noise

    def _masked(self, payload: Payload, kind: Kind, said: Payload) -> Payload:
        names = list(pooled(kind))
        if not set(OURS) <= said.keys() or said[BITS].shape != (len(names),):
            raise UserError("privacy: the server asks for totals without a secure sum")
        bits = {
            name: int(np.clip(b, 0, MOST_BITS)) for name, b in zip(names, said[BITS], strict=True)
        }
        roster = Roster.read(said)
        masked = self.member.masked(
            roster, roster.chosen(said[MEMBERS]), layout_of(kind, bits), payload
        )
        return {**payload, **masked}


def plan_of(workspace: Workspace, facts: Facts) -> NoisePlan:
    """How much noise the totals of a run get, and how often."""
    method = workspace.method
    return noise_plan(workspace.privacy, method.budget, method.kinds(facts))


def is_step(message: Message) -> bool:
    """Whether a message is a step of a secure sum that the method knows nothing of."""
    return message.kind in STEPS

"""Replies that were checked, on their way to the merge: what a liar can do is bounded here.

The method takes means and sums as it always does. Where an aggregate replaces its mean of models,
every reply is handed on with that aggregate for its weights: any weighted mean of them is it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from feddiv.core.arrays import Array, Weights
from feddiv.defence.defence import FEWEST, LAST, Defence, usual_norm
from feddiv.defence.directions import Directions
from feddiv.defence.pooled import RobustTotals
from feddiv.federation.accounts import Accounts
from feddiv.federation.update_norm import update_norm
from feddiv.learning.average import copied
from feddiv.learning.robust import capped_sizes
from feddiv.learning.robust_models import clipped, robust_aggregate, turned_back, update_cosines
from feddiv.methods.contract import Exchange, Kind, Replies, Reply

DRIFT = 2.0  # how much larger the usual update may be than before
STRANGER = "its updates could not be compared with the others' before this hand-over"


@dataclass
class DefendedReplies:
    """The replies of one exchange as the method gets them.

    `sizes` are the clients' n_k as they said them, `norms` those of the updates of the replies
    taken so far, `recent` those of earlier exchanges. `directions` are where updates have pointed,
    also in this exchange once it is over; `left_out` is whose model did not count because of that,
    and why, `turned_back` whose counted the other way round. `introduced`: before this exchange, of
    a hand-over, all clients were compared. Without a defence nothing is held or changed.
    """

    source: Replies
    defence: Defence
    exchange: Exchange
    kind: Kind
    sizes: Mapping[int, int]
    norms: Mapping[int, float]
    recent: tuple[float, ...] = ()
    accounts: Accounts | None = None
    directions: Directions = field(default_factory=Directions)
    introduced: bool = False
    left_out: dict[int, str] = field(default_factory=dict)
    turned_back: dict[int, str] = field(default_factory=dict)

    @property
    def missing(self) -> list[int]:
        """Clients whose reply did not come or was refused."""
        return self.source.missing

    def __iter__(self) -> Iterator[Reply]:
        robust = self.defence.robust
        totals = None
        if robust.filter != "sum" and self.accounts is not None:
            totals = RobustTotals(self.defence, self.kind, self.accounts, self.sizes)
        replies = (self._counted(reply, totals) for reply in self.source)
        yield from self._merged(list(self._held(replies))) if robust.holds_models else replies

    def _counted(self, reply: Reply, totals: RobustTotals | None) -> Reply:
        """The reply of a client that counts for no more samples than it may."""
        size = self.defence.size(reply.samples)
        if totals is not None:
            return replace(totals.replaced(reply), samples=size)
        if size == reply.samples:
            return reply
        share = size / reply.samples
        payload = {
            name: value * share if self.kind.reply[name].pooled else value
            for name, value in reply.payload.items()
        }
        return replace(reply, samples=size, payload=payload)

    def _held(self, replies: Iterator[Reply]) -> Iterator[Reply]:
        """Replies whose weights stay when the next one is taken."""
        for reply in replies:
            weights = None if reply.weights is None else copied(reply.weights)
            yield replace(reply, weights=weights)

    def _merged(self, replies: list[Reply]) -> list[Reply]:
        """All replies of the exchange, their models clipped, then replaced by their aggregate.

        Of few models more may lie than are trimmed away; clipped ones do little harm even then.
        """
        robust = self.defence.robust
        replies = [self._clipped(reply) for reply in replies]
        models = {r.client: r.weights for r in replies if r.weights is not None}
        if robust.weights == "aligned" and models:
            return self._aligned(replies, models)
        if robust.weights == "clip" or not models or len(self.exchange.clients) == 1:
            return replies
        sizes = [r.samples for r in replies if r.weights is not None]
        weights = capped_sizes(np.array(sizes, np.float64))
        aggregate = robust_aggregate(robust.weights, list(models.values()), weights, robust.trim)
        return [r if r.weights is None else replace(r, weights=aggregate) for r in replies]

    def _aligned(self, replies: list[Reply], models: Mapping[int, Weights]) -> list[Reply]:
        """The replies, without the models that point against the others', or with them turned back.

        So the method weighs the models by its own rule; what else a reply says still counts. Who
        trains alone, in a hand-over, is judged by what is known of it.
        """
        clients = list(models)
        cosines = np.zeros((1, 1))
        if len(self.exchange.clients) > 1:
            cosines = _cosines(models, self.exchange)
            self.directions = self.directions.met(clients, cosines)
        found = self.directions.opposed(self.sizes, self.defence)
        against = {client: _against(found[client]) for client in clients if client in found}
        back = self._turned_round(clients, against, cosines)
        self.turned_back = {client: why for client, why in against.items() if client in back}
        self.left_out = {client: why for client, why in against.items() if client not in back}
        if len(self.exchange.clients) == 1 and self.introduced:
            self.left_out |= dict.fromkeys(self.directions.strangers(clients), STRANGER)
        return [self._judged(reply) for reply in replies]

    def _turned_round(
        self, clients: Sequence[int], against: Mapping[int, str], cosines: Array
    ) -> set[int]:
        """Whose update counts turned back: if among others, only if it is against those now too.

        So what counts points where the others' do, as a liar could have sent it at once.
        """
        if self.defence.robust.opposed != "turned_back":
            return set()
        known = self.directions.turned_round(self.sizes, self.defence)
        if len(self.exchange.clients) == 1:
            return known
        others = [place for place, client in enumerate(clients) if client not in against]
        now = cosines[:, others].sum(axis=1)
        return {client for client, agrees in zip(clients, now, strict=True) if agrees < 0} & known

    def _judged(self, reply: Reply) -> Reply:
        if reply.weights is None or reply.client in self.left_out:
            return replace(reply, weights=None)
        if reply.client not in self.turned_back:
            return reply
        sent = self.exchange.to(reply.client).weights
        return replace(reply, weights=turned_back(reply.weights, sent))

    def _clipped(self, reply: Reply) -> Reply:
        """The reply, its update at most so many times the usual norm."""
        if reply.weights is None:
            return reply
        sent: Weights = self.exchange.to(reply.client).weights
        norm, limit = self.norms[reply.client], self._limit(sent)
        if norm <= limit:
            return reply
        return replace(reply, weights=clipped(reply.weights, sent, limit / norm))

    def _limit(self, sent: Weights) -> float:
        """The largest norm of an update: so many times the median of those that moved.

        That counts for at most twice the median of those before it, so that a round in which liars
        are most does not set the measure. In a hand-over a client is alone and compared with those
        before it; the first ones move the model by no more than its own norm.
        """
        most, before = self.defence.robust.clip, usual_norm(self.recent[-LAST:])
        if len(self.exchange.clients) == 1:
            return most * before if before < math.inf else update_norm(sent) or math.inf
        moved = [norm for norm in self.norms.values() if norm > 0]
        now = float(np.median(moved)) if moved else math.inf
        return most * min(now, DRIFT * before)


def introduced(replies: Replies, exchange: Exchange, directions: Directions) -> Directions:
    """Where updates point after an exchange of which nothing else is wanted."""
    models = {reply.client: copied(reply.weights) for reply in replies if reply.weights is not None}
    if len(models) < FEWEST:
        return directions
    return directions.met(list(models), _cosines(models, exchange))


def _cosines(models: Mapping[int, Weights], exchange: Exchange) -> Array:
    """Between the updates of these clients [K, K]."""
    return update_cosines(list(models.values()), [exchange.to(k).weights for k in models])


def _against(agreement: float) -> str:
    return f"its updates point against the others' ({agreement:.2f})"

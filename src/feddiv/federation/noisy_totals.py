"""One exchange whose totals come with noise: what the method gets are possible sums again.

Noise makes counts negative and sums of them wrong. The server replaces the sum over all clients by
the nearest possible one: that looks at nothing but what was noisy already, so it costs no privacy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from feddiv.core.arrays import Array
from feddiv.federation.accounts import Accounts
from feddiv.federation.carriage import Carriage
from feddiv.learning.average import copied
from feddiv.methods.contract import Payload, Replies, Reply
from feddiv.privacy.noise import NoisePlan, noisy_kind
from feddiv.privacy.totals import pooled


@dataclass(kw_only=True)
class NoisyTotals(Carriage):
    """The exchange of a method whose pooled entries come with the noise of a plan."""

    plan: NoisePlan

    def __post_init__(self) -> None:
        self.kind = noisy_kind(self.kind, self.plan)

    def merged(self, replies: Replies, accounts: Accounts | None) -> Replies:
        """Replies as they came, but for the last: with it the sums become possible ones."""
        assert accounts is not None
        return Mended(replies, self, accounts)


@dataclass
class Mended:
    """Noisy replies as the method gets them."""

    replies: Replies
    exchange: NoisyTotals
    accounts: Accounts

    @property
    def missing(self) -> list[int]:
        """Clients whose reply did not come or was refused."""
        return self.replies.missing

    def __iter__(self) -> Iterator[Reply]:
        entries, sizes = pooled(self.exchange.kind), self.exchange.federation.facts.sizes
        before = {
            name: self._possible(name, self.accounts.sum_of(name), sizes)
            for name, entry in entries.items()
            if entry.pooled == "change"
        }
        sent: dict[str, Array] = {}
        told = dict.fromkeys(entries, 0)  # samples of those who brought it in this exchange
        waiting: Reply | None = None
        for reply in self.replies:
            for name in entries.keys() & reply.payload.keys():
                value = np.asarray(reply.payload[name], np.float64)
                sent[name] = sent.get(name, np.zeros_like(value)) + value
                told[name] += reply.samples
                self.accounts.count_upload(name, reply.client)
            if waiting is not None:
                yield waiting
            weights = None if reply.weights is None else copied(reply.weights)
            waiting = replace(reply, weights=weights)
        if waiting is None:
            return
        mended: Payload = dict(waiting.payload)
        for name, value in sent.items():
            nearest = entries[name].nearest
            if name in before:
                after = self._possible(name, self.accounts.sum_of(name), sizes)
                wanted = after - before[name] if len(before[name]) else after
            else:
                wanted = value if nearest is None else nearest(value, told[name])
            mended[name] = (
                mended.get(name, np.zeros_like(value)) + wanted.reshape(value.shape) - value
            )
        yield replace(waiting, payload=mended)

    def _possible(self, name: str, total: Array, sizes: dict[int, int]) -> Array:
        """The sum that the method has of an entry: nothing before anybody said anything."""
        nearest = pooled(self.exchange.kind)[name].nearest
        said = sum(sizes[client] for client in self.accounts.clients_in(name))
        return total if nearest is None or not said else nearest(total, said)

"""What each client has said in all, of entries that replies bring as changes.

A change may be small and the total it makes impossible: counts below zero, more samples than the
client has. So the server keeps a row for each client and entry, and refuses a reply that would make
an impossible total. Then no client moves a sum over clients by more than its own n_k samples could,
whatever it sends and however often. A row is as long as the entry: less than a kilobyte a client.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from feddiv.core.arrays import Array
from feddiv.federation.reply_check import Refused
from feddiv.methods.contract import Kind, Reply


@dataclass(frozen=True)
class Accounts:
    """Totals by entry [K, size], a row for each client; zeros where it said nothing yet."""

    totals: dict[str, Array] = field(default_factory=dict)

    def opened(self, kind: Kind) -> Accounts:
        """A copy to enter the replies of one exchange in: the exchange may be given up."""
        changing = {name for name, entry in kind.reply.items() if entry.pooled == "change"}
        return Accounts(
            {name: rows.copy() if name in changing else rows for name, rows in self.totals.items()}
        )

    def enter(self, reply: Reply, kind: Kind) -> None:
        """Add the changes in a reply, or refuse it and leave the rows as they were."""
        totals: dict[str, Array] = {}
        for name, value in reply.payload.items():
            entry = kind.reply[name]
            total = np.asarray(value, np.float64)
            if entry.pooled == "change":
                total = total + self.total(name, reply.client, total.shape)
                totals[name] = total
            if entry.impossible is not None and (why := entry.impossible(total, reply.samples)):
                raise Refused(f"{name}: {why}")
        for name, total in totals.items():
            self._rows(name, reply.client, total.size)[reply.client] = total.reshape(-1)

    def total(self, name: str, client: int, shape: tuple[int, ...]) -> Array:
        """What a client has said of an entry so far."""
        rows = self.totals.get(name)
        if rows is None or client >= len(rows):
            return np.zeros(shape)
        row: Array = rows[client]
        return row.reshape(shape)

    def _rows(self, name: str, client: int, size: int) -> Array:
        """The rows of an entry, enough of them for this client."""
        rows = self.totals.get(name, np.zeros((0, size)))
        if client >= len(rows):
            more = np.zeros((max(client + 1, 2 * len(rows)) - len(rows), size))
            rows = np.concatenate([rows, more])
        self.totals[name] = rows
        return rows

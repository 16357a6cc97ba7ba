"""What each client has said in all, of entries that replies bring as changes.

A change may be small and the total it makes impossible: counts below zero, more samples than the
client has. So the server keeps a row for each client and entry, and refuses a reply that would make
an impossible total. Then no client moves a sum over clients by more than its own n_k samples could,
whatever it sends and however often; with noise (`privacy.filter=dp`) by as much more as noise may.
Of a secure sum only the sum is known, and checked. A row is as long as the entry: less than a
kilobyte a client.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from feddiv.core.arrays import Array
from feddiv.federation.reply_check import Refused
from feddiv.methods.contract import Kind, Payload, Reply

# Before the name of an entry: its sum over clients where that is all that is known, the sizes of
# the clients in it, and how often each client has uploaded it with noise.
SUM, SIZES, UPLOADS = "sum of ", "sizes in ", "uploads of "


@dataclass(frozen=True)
class Accounts:
    """Totals by entry [K, size], a row for each client; zeros where it said nothing yet."""

    totals: dict[str, Array] = field(default_factory=dict)

    def opened(self, kind: Kind) -> Accounts:
        """A copy to enter the replies of one exchange in: the exchange may be given up."""
        pooled = [name for name, entry in kind.reply.items() if entry.pooled]
        changing = {f"{row}{name}" for name in pooled for row in ("", SUM, SIZES, UPLOADS)}
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

    def enter_sum(self, sums: Payload, kind: Kind, sizes: Mapping[int, int]) -> None:
        """Add what clients of these sizes have said together, or refuse it.

        What each one said is not known, so the total over all who ever said something is checked;
        not where some may have nothing to say.
        """
        for name, value in sums.items():
            entry, total, samples = kind.reply[name], value, sum(sizes.values())
            if entry.pooled == "change":
                for client, size in sizes.items():
                    self._rows(SIZES + name, client, 1)[client] = size
                samples = int(self.totals[SIZES + name].sum())
                row = self._rows(SUM + name, 0, value.size)
                row[0] += value.reshape(-1)
                total = row[0].reshape(value.shape)
            checked = entry.impossible is not None and not entry.optional
            if checked and entry.impossible and (why := entry.impossible(total, samples)):
                raise Refused(f"{name}: {why}")

    def sum_of(self, name: str) -> Array:
        """What all clients have said of an entry, flat; empty where nobody said anything."""
        rows = self.totals.get(name)
        return np.zeros(0) if rows is None else np.asarray(rows.sum(axis=0))

    def clients_in(self, name: str) -> list[int]:
        """Those who have said something of an entry; zeros say nothing."""
        rows = self.totals.get(name)
        return [] if rows is None else np.nonzero(rows.any(axis=1))[0].tolist()

    def count_upload(self, name: str, client: int) -> None:
        """One noisy upload more of an entry."""
        self._rows(UPLOADS + name, client, 1)[client] += 1

    def uploads(self) -> dict[str, int]:
        """How many noisy uploads of each entry the client has made that made most."""
        return {
            name.removeprefix(UPLOADS): int(rows.max())
            for name, rows in self.totals.items()
            if name.startswith(UPLOADS)
        }

    def _rows(self, name: str, client: int, size: int) -> Array:
        """The rows of an entry, enough of them for this client."""
        rows = self.totals.get(name, np.zeros((0, size)))
        if client >= len(rows):
            more = np.zeros((max(client + 1, 2 * len(rows)) - len(rows), size))
            rows = np.concatenate([rows, more])
        self.totals[name] = rows
        return rows

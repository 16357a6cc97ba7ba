"""Robust totals of what clients say of their scores.

Of each client the server knows its own total (`Accounts`), and n_k. The robust total is the summed
n_k of all clients seen, times a robust centre of their totals per sample. A client's row is taken
or left as a whole: honest clients hold different classes and noise, so a median of each number by
itself would belong to nobody.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from feddiv.core.arrays import Array
from feddiv.defence.defence import Defence
from feddiv.federation.accounts import Accounts
from feddiv.learning.robust import capped_sizes, weighted_median
from feddiv.methods.contract import Kind, Reply


class RobustTotals:
    """Changes of robust totals over the replies of one exchange.

    The method adds up what it is handed. So each reply is handed on with the change that it makes
    to the robust total of all clients seen so far, instead of the change of its own total.
    """

    def __init__(
        self, defence: Defence, kind: Kind, accounts: Accounts, sizes: Mapping[int, int]
    ) -> None:
        self.defence, self.accounts, self.sizes = defence, accounts, sizes
        self.pooled = {name: entry.pooled for name, entry in kind.reply.items() if entry.pooled}
        self.said: dict[str, dict[int, Array]] = {}  # of entries that are forgotten after a round
        self.handed: dict[str, Array] = {
            name: self._total(self._known(name), accounts.totals[name].shape[1])
            for name, how in self.pooled.items()
            if how == "change" and name in accounts.totals
        }

    def replaced(self, reply: Reply) -> Reply:
        """The reply with changes of the robust totals for what it says."""
        payload = dict(reply.payload)
        for name in self.pooled.keys() & payload.keys():
            value = np.asarray(payload[name], np.float64)
            if self.pooled[name] == "total":
                self.said.setdefault(name, {})[reply.client] = value.reshape(-1)
            total = self._total(self._known(name), value.size)
            change = total - self.handed.get(name, np.zeros_like(total))
            self.handed[name] = total
            payload[name] = change.reshape(value.shape)
        return replace(reply, payload=payload)

    def _known(self, name: str) -> dict[int, Array]:
        """What each client has said of an entry in all.

        A row of zeros says nothing, whether its client never spoke, took back what it had said or
        sent zeros: it adds nothing to a sum, and here its client is nobody's neighbour.
        """
        if self.pooled[name] == "total":
            return self.said.get(name, {})
        rows = self.accounts.totals[name]
        return {client: rows[client] for client in np.flatnonzero(rows.any(axis=1)).tolist()}

    def _total(self, known: Mapping[int, Array], size: int) -> Array:
        """The robust total [size] of what is known; zeros where nobody said anything."""
        if not known:
            return np.zeros(size)
        sizes = np.array([self.sizes[client] for client in known], np.float64)
        rows = np.array(list(known.values())) / sizes[:, None]
        allowed = np.array([self.defence.size(self.sizes[client]) for client in known], np.float64)
        weights = capped_sizes(allowed)
        robust = self.defence.robust
        centre = robust_centre(rows, weights, robust.filter, robust.trim)
        return np.asarray(weights.sum() * centre)


def robust_centre(rows: Array, weights: Array, rule: str, trim: float) -> Array:
    """One row [D] for the clients' rows [K, D].

    The mean without the share of weight that is farthest from the median of each number: by
    `trimmed_mean` the share `trim`, by `median` half of it.
    """
    middle = weighted_median(rows, weights)
    distances = np.abs(rows - middle).sum(axis=1)
    share, inside = weights / weights.sum(), 0.5 if rule == "median" else 1 - trim
    order = distances.argsort(kind="stable")
    reached = np.cumsum(share[order])
    kept = np.zeros_like(share)
    kept[order] = np.clip(np.minimum(reached, inside) - (reached - share[order]), 0.0, None)
    return np.asarray(kept @ rows / kept.sum())

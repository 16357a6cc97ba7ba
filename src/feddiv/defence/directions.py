"""Where clients' updates point: who is turned round shows when many exchanges are put together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from feddiv.core.arrays import Array
from feddiv.defence.defence import Defence
from feddiv.learning.robust import agreements, capped_sizes

MEMORY = 0.8  # how much the cosine of a pair before counts when the two meet again


@dataclass(frozen=True, eq=False)
class Directions:
    """Cosines [S, S] between the updates of the S clients seen so far, a running mean of each pair.

    NaN of who were never asked at once. In one exchange liars may be most of those who were asked;
    of all clients they are not.
    """

    clients: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    cosines: Array = field(default_factory=lambda: np.zeros((0, 0)))

    def met(self, clients: Sequence[int], cosines: Array) -> Directions:
        """The same after an exchange with these clients, whose updates have cosines [K, K]."""
        known = self.clients.tolist()
        everyone = [*known, *(client for client in clients if client not in known)]
        means = np.full((len(everyone), len(everyone)), np.nan)
        means[: len(known), : len(known)] = self.cosines
        at = np.ix_(*[[everyone.index(client) for client in clients]] * 2)
        before = means[at]
        means[at] = np.where(np.isnan(before), cosines, MEMORY * before + (1 - MEMORY) * cosines)
        return Directions(np.array(everyone, np.int64), means)

    def agreements(self, sizes: Mapping[int, int], defence: Defence) -> dict[int, float]:
        """How far the updates of each client point where the others' do; below 0: against them."""
        everyone = self.clients.tolist()
        allowed = np.array([defence.size(sizes[client]) for client in everyone], np.float64)
        found = agreements(self.cosines, capped_sizes(allowed))
        return dict(zip(everyone, found.tolist(), strict=True))

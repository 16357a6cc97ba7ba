"""Where clients' updates point: who is turned round shows when many exchanges are put together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from feddiv.core.arrays import Array
from feddiv.defence.defence import FEWEST, Defence
from feddiv.learning.robust import agreements, capped_sizes

MEMORY = 0.8  # how much what is known of a pair counts when the two meet again
AS_CLEAR = 0.5  # of the usual agreement: how far an update disagrees that can be turned back


@dataclass(frozen=True, eq=False)
class Directions:
    """Cosines [S, S] between the updates of the S clients seen so far, a running mean of each pair.

    NaN of who were never asked at once. In one exchange liars may be most of those who were asked;
    of all clients they are not. Each exchange counts by its coherence: once a model has learnt what
    there is to learn, honest updates cancel each other, and those turned round look no worse.
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
        before, said = means[at], coherence(cosines) * cosines
        means[at] = np.where(np.isnan(before), said, MEMORY * before + (1 - MEMORY) * said)
        return Directions(np.array(everyone, np.int64), means)

    def agreements(self, sizes: Mapping[int, int], defence: Defence) -> dict[int, float]:
        """How far the updates of each client point where the others' do; below 0: against them."""
        everyone = self.clients.tolist()
        if not everyone:
            return {}
        allowed = np.array([defence.size(sizes[client]) for client in everyone], np.float64)
        found = agreements(self.cosines, capped_sizes(allowed))
        return dict(zip(everyone, found.tolist(), strict=True))

    def opposed(self, sizes: Mapping[int, int], defence: Defence) -> dict[int, float]:
        """Whose updates point against the others', and how far; of two nobody can say who."""
        if len(self.clients) < FEWEST:
            return {}
        found = self.agreements(sizes, defence)
        return {client: agreement for client, agreement in found.items() if agreement < 0}

    def turned_round(self, sizes: Mapping[int, int], defence: Defence) -> set[int]:
        """Of those that are opposed, who disagrees so clearly that the opposite is what it learnt.

        That is: turned back, they agree with the others at least half as well as these usually do.
        An honest client whose data are odd is opposed by less.
        """
        if len(self.clients) < FEWEST:
            return set()
        found = self.agreements(sizes, defence)
        usual = [agreement for agreement in found.values() if agreement > 0]
        if not usual:
            return set()
        least = AS_CLEAR * float(np.median(usual))
        return {client for client, agreement in found.items() if -agreement >= least}

    def strangers(self, clients: Sequence[int]) -> list[int]:
        """Who of these was never compared with anybody, where others were."""
        enough = len(self.clients) >= FEWEST
        return [client for client in clients if enough and client not in self.clients]

    def useless(self, sizes: Mapping[int, int], defence: Defence) -> set[int]:
        """Clients whose model would not count if they were asked."""
        counts = defence.robust.opposed == "turned_back"
        turned = self.turned_round(sizes, defence) if counts else set()
        return self.opposed(sizes, defence).keys() - turned


def coherence(cosines: Array) -> float:
    """How far updates with cosines [K, K] lie on one line, in either direction: 0 none, 1 all do.

    If all of them agree or disagree by c, it is c: the largest eigenvalue is 1 + (K - 1) c.
    """
    if len(cosines) < 2:
        return 0.0
    apart = np.where(np.eye(len(cosines), dtype=bool), 1.0, cosines)  # 0 where nothing moved
    largest = np.linalg.eigvalsh(apart)[-1]
    return float(np.clip((largest - 1) / (len(cosines) - 1), 0.0, 1.0))

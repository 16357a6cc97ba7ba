"""What the server keeps of the clients' filters: running totals, or one row per client seen."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from feddiv.core.arrays import Array
from feddiv.methods.feddiv.filter import BINS, FilterOptions, NoiseFilter
from feddiv.methods.feddiv.second_opinion import TEMPERATURES, best_temperature


@dataclass(frozen=True)
class Ledger:
    """Totals over all clients seen, and the newest mixture of each (rows of NaN: unseen)."""

    histogram: Array  # [64], counts
    softmax: Array  # [C], summed over samples
    mixtures: Array  # [K, 6]
    sizes: Array  # [K], n_k of the clients with a mixture
    tally: Array  # [3, C], labels given, those that look right, and their summed scores
    # Log-likelihood of all given labels at each temperature.
    likelihood: Array = field(default_factory=lambda: np.zeros(len(TEMPERATURES)))

    @classmethod
    def empty(cls, clients: int, classes: int) -> "Ledger":
        """Nothing seen yet."""
        return cls(
            histogram=np.zeros(BINS),
            softmax=np.zeros(classes),
            mixtures=np.full((clients, 6), np.nan),
            sizes=np.zeros(clients),
            tally=np.zeros((3, classes)),
        )

    def opened(self, options: FilterOptions) -> "Ledger":
        """A copy to add replies to; with members=round it has forgotten earlier filters."""
        forget = options.members == "round"
        return Ledger(
            histogram=np.zeros_like(self.histogram) if forget else self.histogram.copy(),
            softmax=self.softmax.copy(),
            mixtures=np.full_like(self.mixtures, np.nan) if forget else self.mixtures.copy(),
            sizes=np.zeros_like(self.sizes) if forget else self.sizes.copy(),
            tally=self.tally.copy(),
            likelihood=self.likelihood.copy(),
        )

    def grown(self, clients: int) -> "Ledger":
        """The same with rows for so many clients at least."""
        more = max(clients - len(self.sizes), 0)
        return replace(
            self,
            mixtures=np.concatenate([self.mixtures, np.full((more, 6), np.nan)]),
            sizes=np.concatenate([self.sizes, np.zeros(more)]),
        )

    def add(self, client: int, samples: int, payload: Mapping[str, Array]) -> None:
        """Enter one reply: changes of totals, and the client's new mixture."""
        for name, total in (
            ("histogram", self.histogram),
            ("softmax", self.softmax),
            ("tally", self.tally),
            ("likelihood", self.likelihood),
        ):
            if name in payload:
                total += payload[name]
        if "mixture" in payload:
            self.mixtures[client] = payload["mixture"]
            self.sizes[client] = samples

    def fitted(self, before: NoiseFilter) -> NoiseFilter:
        """The federated filter W^(t+1); `before` where nobody sent anything yet."""
        if before.options.aggregate == "histogram":
            return before.from_histogram(self.histogram)
        seen = self.sizes > 0
        return before.from_mixtures(self.mixtures[seen], self.sizes[seen])

    @property
    def bias(self) -> Array:
        """p-bar: the mean softmax over the samples of all clients seen; uniform before any."""
        total = self.softmax.sum()
        if total <= 0:
            return np.full(len(self.softmax), 1 / len(self.softmax))
        return np.asarray(self.softmax / total)

    @property
    def temperature(self) -> float:
        """By which logits are divided to make the model as sure as it should be."""
        return best_temperature(self.likelihood)

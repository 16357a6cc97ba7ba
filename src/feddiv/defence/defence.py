"""The defences of a run as its settings say them; all of it is off by default."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from feddiv.config.sections import RobustOptions
from feddiv.methods.contract import Facts

RECENT = 20  # norms of updates that the server remembers, to judge the next one alone by
STANDS_OUT = 10.0  # times the median norm: who is blamed where the merged model is broken


@dataclass(frozen=True)
class Defence:
    """How replies are merged robustly, and how many samples a client counts for at most."""

    robust: RobustOptions = field(default_factory=RobustOptions)
    largest_site: int | None = None

    def size(self, samples: int) -> int:
        """n_k as the method sees it."""
        return samples if self.largest_site is None else min(samples, self.largest_site)

    def sizes(self, sizes: Mapping[int, int]) -> dict[int, int]:
        """The same of several clients."""
        return {client: self.size(samples) for client, samples in sizes.items()}

    def facts(self, facts: Facts) -> Facts:
        """What the method is told at the start."""
        return facts if self.largest_site is None else replace(facts, sizes=self.sizes(facts.sizes))

    def recent(self, before: tuple[float, ...], norms: Collection[float]) -> tuple[float, ...]:
        """The norms to remember after an exchange; none where no update is ever clipped."""
        return (*before, *norms)[-RECENT:] if self.robust.holds_models else ()


def standing_out(norms: Mapping[int, float]) -> dict[int, str]:
    """Clients whose update is far larger than the others', and how to say it."""
    usual = float(np.median(list(norms.values()))) if norms else 0.0
    return {
        client: f"its update has norm {norm:.3g}, the median is {usual:.3g}"
        for client, norm in norms.items()
        if norm > STANDS_OUT * usual
    }

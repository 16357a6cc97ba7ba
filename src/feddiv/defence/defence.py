"""The defences of a run as its settings say them; all of it is off by default."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from feddiv.config.sections import RobustOptions
from feddiv.methods.contract import Facts

RECENT = 30  # norms of updates that the server remembers: liars are hardly ever most of so many
LAST = 10  # of them, by which a client alone is judged
FEWEST = 3  # norms that have a usual one among them
STANDS_OUT = 10.0  # times the usual norm: who is blamed where the merged model is broken
FAR_OUT = 20.0  # times the usual norm: far more than honest updates differ by
BARRED = 10  # turns in which who sent such an update is not asked again


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
        """The norms to remember after an exchange."""
        return (*before, *norms)[-RECENT:]


def barred(before: Mapping[int, int], far_out: Collection[int], turn: int) -> dict[int, int]:
    """Until which turn clients are not asked, if the updates of some were far out in this turn."""
    still = {client: until for client, until in before.items() if until >= turn}
    return still | dict.fromkeys(far_out, turn + BARRED)


def usual_norm(norms: Collection[float]) -> float:
    """The median of those that moved at all; infinite where too few did to say what is usual."""
    moved = [norm for norm in norms if norm > 0]
    return float(np.median(moved)) if len(moved) >= FEWEST else math.inf


def standing_out(
    norms: Mapping[int, float], times: float = STANDS_OUT, before: float = 0.0
) -> dict[int, str]:
    """Clients whose update is so many times as large as usual, and how to say it.

    What was usual `before` is usual now too: or liars that send next to nothing would make honest
    updates stand out where they happen to be most of those asked.
    """
    usual = max(usual_norm(norms.values()), before)
    return {
        client: f"its update has norm {norm:.3g}, the usual one is {usual:.3g}"
        for client, norm in norms.items()
        if norm > times * usual
    }

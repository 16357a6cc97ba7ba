"""What a run has to spend, how a method spends it, and what is known before the first round."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Facts:
    """What the server knows before the first round: the hello exchange tells it."""

    classes: tuple[str, ...]
    input_shape: tuple[int, ...]
    sizes: dict[int, int]  # n_k of every client that said hello
    iid: bool  # whether the partition is IID by construction


@dataclass(frozen=True)
class Budget:
    """What a method may spend, in communication rounds of `fraction` of the clients."""

    rounds: int
    fraction: float
    warmup_iterations: int

    def visits(self, clients: int) -> int:
        """Clients in one round: floor(fraction * K), at least one."""
        return max(int(self.fraction * clients + 1e-9), 1)

    def part(self, share: float) -> int:
        """This share of the rounds, rounded up."""
        return math.ceil(share * self.rounds - 1e-9)

    @property
    def warmup_rounds(self) -> int:
        """The part of the budget that warm-up takes: one iteration visits every client once."""
        return math.ceil(self.warmup_iterations / self.fraction - 1e-9)

    @property
    def most_warmup(self) -> int:
        """Iterations of warm-up that leave a round for training."""
        return int((self.rounds - 1) * self.fraction + 1e-9)


@dataclass(frozen=True)
class Stage:
    """A stretch of a run: `turns` turns of the loop, each worth `rounds` communication rounds."""

    name: str
    turns: int
    rounds: float = 1.0
    hands_over: bool = False  # clients train in turn, each from where the one before ended


@dataclass(frozen=True)
class Moment:
    """Where a run stands: turn `turn` (from 0) of `stage`, exchange `exchange` (from 0) of it."""

    stage: str
    turn: int
    exchange: int = 0

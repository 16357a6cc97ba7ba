"""Random streams: every draw is a function of (seed, round, exchange, client, purpose).

A draw never depends on what was drawn before it elsewhere, so a run gives the same bits whoever
carries its messages, in whatever order clients finish, and after a resume.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import torch


@dataclass(frozen=True)
class Streams:
    """A place in the run from which generators are derived by purpose.

    Examples:
        >>> here = Streams(seed=3).at(round=7, client=2)
        >>> bool(here.numpy("order").random() == here.numpy("order").random())
        True
    """

    seed: int
    round: int = 0
    exchange: int = 0
    client: int = -1  # -1: the server
    part: str = ""  # of a visit that does the same thing several times

    def at(
        self, *, round: int | None = None, exchange: int | None = None, client: int | None = None
    ) -> Streams:
        """The same run at another round, exchange or client."""
        return replace(
            self,
            round=self.round if round is None else round,
            exchange=self.exchange if exchange is None else exchange,
            client=self.client if client is None else client,
        )

    def within(self, part: str) -> Streams:
        """The same place in a named part of the work there: an epoch, one of two nets."""
        return replace(self, part=f"{self.part}{part}/")

    def number(self, purpose: str) -> int:
        """A 63-bit seed for this place and purpose."""
        key = f"{self.seed}/{self.round}/{self.exchange}/{self.client}/{self.part}{purpose}"
        return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "big") >> 1

    def numpy(self, purpose: str) -> np.random.Generator:
        """A numpy generator for this purpose, always starting from its beginning."""
        return np.random.default_rng(self.number(purpose))

    def torch(self, purpose: str) -> torch.Generator:
        """A torch (CPU) generator for this purpose, always starting from its beginning."""
        generator = torch.Generator()
        generator.manual_seed(self.number(purpose))
        return generator

    @contextmanager
    def seeded(self, purpose: str) -> Iterator[None]:
        """Seed torch's global generator inside the block: module initialisers take no generator."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.number(purpose))
            yield

"""What a method sees of one client."""

from __future__ import annotations

from collections.abc import Callable

import torch

from feddiv.core.arrays import StateDict
from feddiv.data import Samples


class Client:
    """What a method sees of one client: its samples, and nets to work with.

    `net(weights)` loads weights into a net object that the worker owns and uses again for the
    next client, so a method must not keep it beyond the visit. `held_out` are samples that it
    keeps out of training: only `assess_held_out` may look at them.
    """

    def __init__(
        self,
        id: int,
        samples: Samples,
        classes: int,
        load: Callable[[str, StateDict], torch.nn.Module],
        held_out: Samples | None = None,
    ) -> None:
        self.id = id
        self.samples = samples
        self.classes = classes
        self._load = load
        self.held_out = samples.none if held_out is None else held_out

    def __len__(self) -> int:
        return len(self.samples)

    def net(self, weights: StateDict, name: str = "net") -> torch.nn.Module:
        """The net of this name, holding these weights."""
        return self._load(name, weights)

    def with_only(self, samples: Samples, held_out: Samples | None = None) -> Client:
        """The same client, as if it had these samples, and none or these kept out of training."""
        return Client(self.id, samples, self.classes, self._load, held_out)

"""What a method declares of its messages and replies: nothing else may cross the network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from feddiv.core.arrays import Array


@dataclass(frozen=True)
class Declared:
    """One declared entry of a reply: its shape and its bounds (for all, or for each number).

    None in a shape stands for a size that only the net knows, such as the width of its features.
    A reply without the entry is refused, unless it is `optional`: some clients have nothing to say.

    An entry is `pooled` if the server uses nothing of it but the sum over clients: a reply brings
    the client's own total, or how it changed since the last reply that was taken. `impossible` says
    why a client of n samples cannot have such a value (of a change: such a total); an empty text
    means that it can. `sensitivity` is how far (L2) a client's total moves at most if one of its
    samples is another one, all that it received being the same; None where nobody has shown a
    bound. `nearest` is the possible sum of clients with so many samples that is nearest to a noisy
    one.
    """

    shape: tuple[int | None, ...]
    low: float | tuple[float, ...] = -np.inf
    high: float | tuple[float, ...] = np.inf
    optional: bool = False
    metric: bool = False  # one of the reply's metrics; else it belongs in the payload
    pooled: Literal["", "total", "change"] = ""
    impossible: Callable[[Array, int], str] | None = None
    sensitivity: float | None = None
    nearest: Callable[[Array, int], Array] | None = None


@dataclass(frozen=True)
class Kind:
    """What messages of one kind carry, and replies to them: all of this, and nothing else.

    `reply` declares the payload and the metrics of a reply, `models` names the models in it, and
    `message` names what a message's payload may hold.
    """

    reply: Mapping[str, Declared] = field(default_factory=dict)
    models: tuple[str, ...] = ("net",)
    message: tuple[str, ...] = ()

"""What goes to clients and comes back: messages, replies, and the outcome of a visit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from feddiv.core.arrays import Weights

Payload = dict[str, npt.NDArray[np.float64]]
Diary = dict[str, Any]  # plain numbers, strings and lists: it becomes a line of JSON
M = TypeVar("M")  # a client's memory


@dataclass(frozen=True)
class Message:
    """What a client receives."""

    kind: str
    weights: Weights = field(default_factory=dict)
    payload: Payload = field(default_factory=dict)


@dataclass(frozen=True)
class Exchange:
    """One message to some clients, who each answer once; `personal` overrides it per client."""

    clients: tuple[int, ...]
    message: Message
    personal: Mapping[int, Message] = field(default_factory=dict)

    def to(self, client: int) -> Message:
        """What this client receives."""
        return self.personal.get(client, self.message)


@dataclass(frozen=True)
class Reply:
    """What a client sends back. Everything here crosses the network and was declared.

    Weights may be those of the net object itself: they are valid until it is used again.
    """

    client: int
    samples: int  # n_k
    weights: Weights | None = None
    payload: Payload = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Visit(Generic[M]):
    """The outcome of a visit: the reply, and what stays at the client."""

    reply: Reply
    memory: M
    diary: Diary = field(default_factory=dict)


class Replies(Protocol):
    """The replies of one exchange in the plan's order; `missing` is complete after the last.

    Weights of a reply are only lent: they may change when the next reply is taken. Whoever needs
    them longer keeps a copy (`copied`).
    """

    @property
    def missing(self) -> list[int]:
        """Clients whose reply did not come or was refused."""

    def __iter__(self) -> Any:
        """Iterate over `Reply` objects, once."""

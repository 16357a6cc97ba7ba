"""How the server carries out one exchange: as it is, as a secure sum, or with noise.

The loop asks everybody, checks the replies and merges them in the same way; in between, a private
filter changes what is sent, what is expected, and what the method gets to see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from feddiv.core.randomness import Streams
from feddiv.federation.accounts import Accounts
from feddiv.federation.federation import Absence, Federation
from feddiv.methods.contract import Exchange, Kind, Replies, Visit

Note = Callable[[dict[str, Any]], None]


@dataclass
class Carriage:
    """One exchange as the method plans it, and this is how it is carried out without privacy.

    The sequence: `visits()` asks the clients (of a secure sum: after keys and letters); each reply
    is checked and goes through `merged(...)` to the method. When the last one is in, a secure sum
    calls `before_sum()`, asks for shares, and only then is the sum told, with the last reply.
    """

    federation: Federation
    exchange: Exchange
    kind: Kind
    rng: Streams
    bytes_up: int = 0  # of messages and replies beside those of the exchange itself
    bytes_down: int = 0
    # Called when all replies are in, before a secure sum of them is told; may raise to prevent it.
    before_sum: Callable[[], None] = lambda: None

    def visits(self) -> Iterator[Visit[Any] | Absence]:
        """The clients' work; may change `exchange` before the first of them."""
        return self.federation.visits(self.exchange, self.rng)

    def merged(self, replies: Replies, accounts: Accounts | None) -> Replies:
        """The replies as the method gets them."""
        return replies

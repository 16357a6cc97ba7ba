"""Replies as `merge` gets them, made as hard as they may be."""

from collections.abc import Iterator

import torch

from feddiv.core.trees import dismantle
from feddiv.methods.contract import Exchange, Replies, Reply


class Lent:
    """Replies whose weights are spoilt once the next one is taken, as their memory may be."""

    def __init__(self, replies: Replies) -> None:
        self._replies = replies
        self.all_taken = False
        self._storages: set[int] = set()

    @property
    def missing(self) -> list[int]:
        """Clients whose reply did not come or was refused."""
        return self._replies.missing

    def __iter__(self) -> Iterator[Reply]:
        for reply in self._replies:
            yield reply
            for state in (reply.weights or {}).values():
                for value in state.values():
                    self._storages.add(_storage(value))
                    if value.is_floating_point():
                        value.fill_(torch.nan)
        self.all_taken = True

    def kept_by(self, state: object) -> bool:
        """Whether the state holds weights themselves, and no copy."""
        return any(_storage(tensor) in self._storages for tensor in dismantle(state)[1].values())


class Nobody:
    """An exchange to which nobody answers."""

    def __init__(self, exchange: Exchange) -> None:
        self.missing = list(exchange.clients)

    def __iter__(self) -> Iterator[Reply]:
        return iter(())


def _storage(tensor: torch.Tensor) -> int:
    """Where in memory its numbers are; the same for a view of it."""
    return tensor.untyped_storage().data_ptr()

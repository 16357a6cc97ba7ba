"""Weights in memory that several processes see.

The memory is anonymous: it has no name that could be left behind, and is gone with the last
process that maps it, however that process ends. Processes share it because they are forked.
"""

import mmap
from dataclasses import dataclass

import torch
from torch import Tensor

from feddiv.core.arrays import Weights

ALIGNED = 64  # bytes: a cache line, and what vector instructions like


@dataclass(frozen=True)
class Entry:
    """Where one tensor lies."""

    model: str
    key: str
    dtype: str
    shape: tuple[int, ...]
    offset: int


Layout = tuple[Entry, ...]


def room_for(weights: Weights) -> int:
    """Bytes that these weights take in a shared area."""
    return sum(_room(value) for state in weights.values() for value in state.values())


def _room(tensor: Tensor) -> int:
    size = tensor.numel() * tensor.element_size()
    return size + -size % ALIGNED


class SharedArea:
    """A stretch of shared memory that holds one set of weights at a time."""

    def __init__(self, size: int) -> None:
        self.size = max(size, mmap.PAGESIZE)
        self._bytes = torch.frombuffer(mmap.mmap(-1, self.size), dtype=torch.uint8)

    def write(self, weights: Weights) -> Layout:
        """Copy weights in; the layout says how to find them again."""
        entries, offset = [], 0
        for model, state in weights.items():
            for key, value in state.items():
                dtype = str(value.dtype).removeprefix("torch.")
                entry = Entry(model, key, dtype, tuple(value.shape), offset)
                self._view(entry).copy_(value.detach())
                entries.append(entry)
                offset += _room(value)
        return tuple(entries)

    def read(self, layout: Layout) -> Weights:
        """The weights as views: they change when the area is written again."""
        weights: Weights = {}
        for entry in layout:
            weights.setdefault(entry.model, {})[entry.key] = self._view(entry)
        return weights

    def _view(self, entry: Entry) -> Tensor:
        dtype: torch.dtype = getattr(torch, entry.dtype)
        count = torch.Size(entry.shape).numel()
        stretch = self._bytes[entry.offset : entry.offset + count * dtype.itemsize]
        return stretch.view(dtype).view(entry.shape)

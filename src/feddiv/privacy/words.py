"""Bytes and whole numbers as payloads carry them: float64 arrays of words of 32 bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from feddiv.core.arrays import Array
from feddiv.methods.contract import Payload

Numbers = npt.NDArray[np.uint64]  # modulo 2^64

WORD = 2.0**32
MOST_BITS = 52  # after the binary point: a float64 has no more
LEAST_BITS = 31  # what is lost by rounding is below 1e-9


class NoWords(ValueError):
    """Numbers that are no words."""


def as_words(data: bytes) -> Array:
    """Bytes, a multiple of four, as words."""
    return np.frombuffer(data, ">u4").astype(np.float64)


def as_bytes(words: Array) -> bytes:
    """The bytes in a row of words."""
    return _whole(words).astype(">u4").tobytes()


def _whole(words: Array) -> npt.NDArray[np.uint64]:
    if not_words(words):
        raise NoWords("numbers that are no words of 32 bits")
    return words.astype(np.uint64)


def not_words(words: Array, samples: int = 0) -> str:
    """Why these are no words; an empty text where they are."""
    fine = (words >= 0) & (words < WORD) & (words == np.floor(words))
    return "" if fine.all() else "numbers that are no words of 32 bits"


def joined(halves: Array) -> Numbers:
    """The numbers of 64 bits whose upper and lower words these are, [2, ...]."""
    upper, lower = _whole(halves)
    return np.asarray((upper << np.uint64(32)) | lower)


def halves(numbers: Numbers) -> Array:
    """Upper and lower words [2, ...] of numbers of 64 bits."""
    low = np.uint64(0xFFFFFFFF)
    return np.stack([numbers >> np.uint64(32), numbers & low]).astype(np.float64)


def bits_for(bound: float, clients: int) -> int:
    """Binary places that leave room for a sum over so many clients of numbers up to a bound."""
    return min(62 - int(np.ceil(np.log2(max(bound, 1.0) * clients))), MOST_BITS)


@dataclass(frozen=True)
class Layout:
    """Entries of a payload one after the other, as fixed-point numbers modulo 2^64."""

    shapes: dict[str, tuple[int, ...]]
    bits: dict[str, int]  # after the binary point

    @property
    def size(self) -> int:
        """Numbers in all."""
        return sum(int(np.prod(shape)) for shape in self.shapes.values())

    def encoded(self, payload: Payload) -> Numbers:
        """All entries in one row; one that is absent adds nothing to a sum: zeros."""
        rows: list[Any] = [np.zeros(0, np.uint64)]
        for name, shape in self.shapes.items():
            value = np.asarray(payload.get(name, np.zeros(shape)), np.float64)
            scaled = np.rint(value * 2.0 ** self.bits[name])
            if value.shape != shape or not (np.abs(scaled) < 2.0**62).all():
                raise ValueError(f"{name} does not fit into fixed-point numbers")
            rows.append(scaled.astype(np.int64).view(np.uint64).reshape(-1))
        return np.concatenate(rows)

    def decoded(self, row: Numbers) -> Payload:
        """The entries of such a row, or of a sum of them."""
        signed = row.view(np.int64)
        return {
            name: part.astype(np.float64).reshape(self.shapes[name]) / 2.0 ** self.bits[name]
            for name, part in zip(self.shapes, self._parts(signed), strict=True)
        }

    def masked(self, row: Numbers) -> Payload:
        """A row as it is sent: entries as words [2, ...]."""
        return {
            name: halves(part.reshape(self.shapes[name]))
            for name, part in zip(self.shapes, self._parts(row), strict=True)
        }

    def read(self, payload: Payload) -> Numbers:
        """A row that was sent."""
        return np.concatenate([joined(payload[name]).reshape(-1) for name in self.shapes])

    def _parts(self, row: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes.values()])
        return list(np.split(row, ends[:-1])) if len(ends) else []

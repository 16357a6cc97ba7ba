"""What a pickle may make beside containers: bytes, sets, types of numbers and arrays of them.

A file names these by their place in numpy and Python. Here each name stands for a function of our
own, and what a file calls an array is a value of ours that waits for shape, type and bytes; the
array is made with `numpy.frombuffer`, once they are found to fit together.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

MOST_KEYS: Final = 10_000  # in all dicts and sets: keys can be chosen to collide
MOST_AXES: Final = 32
NUMBERS: Final = re.compile(r"[biuf](1|2|4|8|16)")  # what a type may be called
ORDERS: Final = ("<", ">", "=", "|")
LATIN: Final = ("latin1", "latin-1")


class Damaged(ValueError):
    """Bytes that are no pickle of arrays and plain containers, and why."""


@dataclass(frozen=True)
class Name:
    """A name on the list: what it stands for here."""

    does: str


@dataclass(eq=False)
class Unbuilt:
    """An array or a type of numbers whose state has not come yet; it may be in no container."""

    does: str
    text: str = ""  # of a type
    places: list[int] = field(default_factory=list)  # in the memo


def _names() -> dict[tuple[str, str], Name]:
    names = {
        ("numpy", "ndarray"): NDARRAY,
        ("numpy", "dtype"): Name("dtype"),
        ("_codecs", "encode"): Name("encode"),
    }
    for core in ("numpy.core", "numpy._core"):  # before numpy 2, and since
        names[f"{core}.multiarray", "_reconstruct"] = Name("reconstruct")
        names[f"{core}.multiarray", "scalar"] = Name("scalar")
        names[f"{core}.numeric", "_frombuffer"] = Name("frombuffer")
    for module in ("__builtin__", "builtins"):
        for name in ("set", "frozenset", "bytearray", "bytes", "complex"):
            names[module, name] = Name(name)
    return names


NDARRAY: Final = Name("ndarray")  # only an argument: of which class an array is
NAMES: Final = _names()


class Maker:
    """Makes values for one file of `size` bytes, and keeps count of what they cost."""

    def __init__(self, size: int) -> None:
        self.room, self.keys = size, MOST_KEYS

    def called(self, name: object, arguments: object) -> Any:
        """What a name gives when it is called."""
        if not isinstance(name, Name) or name.does not in _CALLS or type(arguments) is not tuple:
            raise Damaged("something is called that is no function")
        return _CALLS[name.does](self, *arguments)

    def built(self, unbuilt: Unbuilt, state: tuple[Any, ...]) -> Any:
        """The array or the type that has this state."""
        if unbuilt.does == "dtype":
            return _type(unbuilt.text, _word(state[1]))
        _, shape, kind, fortran, content = state
        order = "F" if fortran in (True, 1) else "C"
        return _array(self._raw(content), kind, shape, order)

    def key(self, value: Any) -> Any:
        """A key of a dict or an element of a set: no tuple, whose hash may take for ever."""
        self.keys -= 1
        if self.keys < 0:
            raise Damaged(f"its dicts and sets hold more than {MOST_KEYS:,} keys")
        if value is not None and type(value) not in (str, bytes, int, float, bool, complex):
            raise Damaged(f"a {type(value).__name__} as a key")
        return value

    def _spend(self, size: int) -> None:
        """Copies may not add up to more than the file: the same bytes could be copied for ever."""
        self.room -= size
        if self.room < 0:
            raise Damaged("it makes more data than it holds")

    def _raw(self, content: Any) -> bytes | bytearray:
        """The bytes of an array; python 2 had none but strings."""
        if type(content) is str:
            return self.encode(content)
        if type(content) not in (bytes, bytearray):
            raise Damaged(f"an array of {type(content).__name__}, not of numbers")
        found: bytes | bytearray = content
        return found

    def encode(self, text: str, codec: str = "latin1") -> bytes:
        """Bytes as python 3 writes them in old protocols; no other codec is ever looked up."""
        if _word(codec) not in LATIN or type(text) is not str:
            raise Damaged(f"bytes written with codec {_word(codec)!r}")
        self._spend(len(text))
        return text.encode("latin1")

    def byte_array(self, content: Any = b"", codec: str = "latin1") -> bytearray:
        """A copy of bytes; never so many zeros as a number says."""
        if type(content) is str:
            return bytearray(self.encode(content, codec))
        if type(content) not in (bytes, bytearray):
            raise Damaged(f"a bytearray of {type(content).__name__}")
        self._spend(len(content))
        return bytearray(content)

    def complex_number(self, real: float, imaginary: float) -> complex:
        """From its parts."""
        if {type(real), type(imaginary)} - {int, float}:
            raise Damaged("a complex number of no numbers")
        return complex(real, imaginary)

    def elements(self, values: Any = ()) -> list[Any]:
        """What a set holds."""
        if type(values) not in (list, tuple):
            raise Damaged("a set of no list")
        return [self.key(value) for value in values]

    def dtype(self, text: object, *_: object) -> Unbuilt:
        """A type of numbers, whose order of bytes comes as its state."""
        return Unbuilt("dtype", _word(text))

    def reconstruct(self, kind: object, *_: object) -> Unbuilt:
        """An array, of which everything comes as its state."""
        if kind is not NDARRAY:
            raise Damaged("an array of another class")
        return Unbuilt("array")

    def scalar(self, kind: Any, content: Any) -> Any:
        """One number of a type."""
        return _array(self._raw(content), kind, (), "C")[()]

    def from_buffer(self, content: Any, kind: Any, shape: Any, order: Any, axes: Any = None) -> Any:
        """An array of protocol 5."""
        if axes is None:
            return _array(self._raw(content), kind, shape, order)
        return _array(self._raw(content), kind, shape, "C").transpose(_sizes(axes))


_CALLS: Final[dict[str, Callable[..., Any]]] = {
    "encode": Maker.encode,
    "dtype": Maker.dtype,
    "reconstruct": Maker.reconstruct,
    "scalar": Maker.scalar,
    "frombuffer": Maker.from_buffer,
    "bytearray": Maker.byte_array,
    "bytes": lambda maker: b"",
    "complex": Maker.complex_number,
    "set": lambda maker, values=(): set(maker.elements(values)),
    "frozenset": lambda maker, values=(): frozenset(maker.elements(values)),
}


def _word(value: object) -> str:
    """A short text; of python 2 it may be bytes. (To print anything else may take for ever.)"""
    if type(value) is bytes and len(value) < 40:
        return value.decode("latin1")
    if type(value) is not str or len(value) >= 40:
        raise Damaged(f"a {type(value).__name__} where a word should be")
    return value


def _type(text: str, order: object) -> np.dtype[Any]:
    """A type of numbers: no objects, no fields, no texts."""
    if not NUMBERS.fullmatch(text) or order not in ORDERS:
        raise Damaged(f"an array of type {text!r}, not of numbers")
    return np.dtype(f"{order}{text}")


def _sizes(shape: Any) -> tuple[int, ...]:
    if type(shape) is not tuple or len(shape) > MOST_AXES:
        raise Damaged("an array without a shape")
    if any(type(size) is not int or not 0 <= size < 1 << 40 for size in shape):
        raise Damaged("an array with an impossible shape")
    return shape


def _array(raw: bytes | bytearray, kind: Any, shape: Any, order: Any) -> Any:
    """The array of these bytes, which it does not copy."""
    sizes = _sizes(shape)
    if not isinstance(kind, np.dtype) or order not in ("C", "F"):
        raise Damaged("an array without a type")
    if math.prod(sizes) * kind.itemsize != len(raw):
        raise Damaged(f"an array of shape {sizes} and type {kind} in {len(raw)} bytes")
    return np.frombuffer(raw, kind).reshape(sizes, order=order)

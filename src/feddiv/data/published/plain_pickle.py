"""Reads a pickle of plain containers and arrays of numbers as data, not as a program.

A pickle is a program for a small machine with a stack and a memo. Python's own machine looks up
whatever a file names, calls it, and hands it any state: even with a short list of names that is
not safe, because numpy's own objects take a state that holds addresses. This machine looks nothing
up and sets no attribute of anything; what it can make is in `pickle_values.py`.

Memory and time are bounded by the size of the file and by the ceilings here and there.
"""

from __future__ import annotations

import codecs
import io
import pickletools
from collections.abc import Callable
from typing import Any, Final

from feddiv.data.published.pickle_values import NAMES, NDARRAY, Damaged, Maker, Name, Unbuilt

MOST_STEPS: Final = 2_000_000  # CIFAR-100's training file takes some 400,000
PROTOCOL: Final = 5  # the newest


class NotPlain(Exception):
    """The pickle asks for something by a name that is not on the list."""


def read_plain(content: bytes, encoding: str = "ASCII") -> Any:
    """What a pickle holds; `encoding` is for strings of python 2, "bytes" keeps them raw.

    Raises `Damaged` or `NotPlain`, and nothing else.
    """
    try:
        return _Machine(content, encoding).run()
    except (Damaged, NotPlain):
        raise
    except Exception as error:  # whatever numpy and the readers of single values stumble over
        said = str(error).splitlines()
        raise Damaged(said[0][:200] if said else type(error).__name__) from None


class _Mark:
    """Where on the stack a group of values begins."""


_MARK: Final = _Mark()
_OPCODES: Final = {opcode.code: opcode for opcode in pickletools.opcodes}


class _Machine:
    """The stack, the memo, and what makes values."""

    def __init__(self, content: bytes, encoding: str) -> None:
        self.file, self.encoding = io.BytesIO(content), encoding
        self.maker = Maker(len(content))
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self) -> Any:
        """Step by step to the end."""
        for _ in range(MOST_STEPS):
            code = self.file.read(1)
            opcode = _OPCODES.get(code.decode("latin1"))
            if opcode is None:
                raise Damaged(f"unknown opcode {code!r}" if code else "it ends too early")
            name = opcode.name
            if name in _STRINGS:
                raw = _STRINGS[name](self.file)
                self.push(raw if self.encoding == "bytes" else raw.decode(self.encoding))
                continue
            value = None if opcode.arg is None else opcode.arg.reader(self.file)
            if name == "STOP":
                return self.pop()
            if name in _VALUES:
                self.push(value)
            elif name in _CONSTANTS:
                self.push(_CONSTANTS[name]())
            elif name in _STEPS:
                _STEPS[name](self, value)
            else:
                raise Damaged(f"opcode {name} is for objects, which are not read")
        raise Damaged(f"it takes more than {MOST_STEPS:,} steps")

    # The stack

    def push(self, value: Any) -> None:
        """On top."""
        self.stack.append(value)

    def take(self) -> Any:
        """The last value, whatever it is."""
        if not self.stack or self.stack[-1] is _MARK:
            raise Damaged("its stack is empty")
        return self.stack.pop()

    def pop(self) -> Any:
        """The last value, which may not be half an array, nor a function's name."""
        value = self.take()
        if isinstance(value, Unbuilt) or (isinstance(value, Name) and value is not NDARRAY):
            raise Damaged("something is used before it is complete")
        return value

    def group(self) -> list[Any]:
        """The values since the last mark."""
        values: list[Any] = []
        while self.stack and self.stack[-1] is not _MARK:
            values.append(self.pop())
        if not self.stack:
            raise Damaged("a mark is missing")
        self.stack.pop()
        return values[::-1]

    def several(self, count: int) -> tuple[Any, ...]:
        """The last so many values."""
        return tuple([self.pop() for _ in range(count)][::-1])

    def top(self, kind: type) -> Any:
        """The container that is on top."""
        if not self.stack or type(self.stack[-1]) is not kind:
            raise Damaged(f"a {kind.__name__} is missing")
        return self.stack[-1]

    # Containers

    def extend(self, values: list[Any]) -> None:
        """Add to a list."""
        self.top(list).extend(values)

    def add(self, values: list[Any]) -> None:
        """Add to a set."""
        self.top(set).update(self.maker.elements(values))

    def update(self, values: tuple[Any, ...] | list[Any]) -> None:
        """Add keys and values, which take turns, to a dict."""
        content = self.pairs(values)
        self.top(dict).update(content)

    def pairs(self, values: tuple[Any, ...] | list[Any]) -> dict[Any, Any]:
        """A dict of keys and values, which take turns."""
        if len(values) % 2:
            raise Damaged("a key has no value")
        keys = [self.maker.key(key) for key in values[::2]]
        return dict(zip(keys, values[1::2], strict=True))

    # The memo

    def put(self, place: int | None) -> None:
        """Remember what is on top."""
        value = self.take()
        place = len(self.memo) if place is None else place
        self.memo[place] = value
        if isinstance(value, Unbuilt):
            value.places.append(place)
        self.push(value)

    def get(self, place: int) -> None:
        """What was remembered."""
        if place not in self.memo:
            raise Damaged(f"nothing was remembered as {place}")
        self.push(self.memo[place])

    # Names, calls and states

    def protocol(self, version: int) -> None:
        """Refuse what is newer than this."""
        if version > PROTOCOL:
            raise Damaged(f"unsupported pickle protocol: {version}")

    def name(self, module: object, name: object) -> None:
        """A name on the list; nothing is looked up."""
        if type(module) is not str or type(name) is not str:
            raise Damaged("a name that is no text")
        found = NAMES.get((module, name))
        if found is None:
            raise NotPlain(f"{module}.{name}"[:200])
        self.push(found)

    def call(self, _: None) -> None:
        """Call what a name stands for."""
        arguments, name = self.pop(), self.take()
        self.push(self.maker.called(name, arguments))

    def build(self, _: None) -> None:
        """Give an array or a type its state; it is finished now wherever it was remembered."""
        state, unbuilt = self.pop(), self.take()
        if not isinstance(unbuilt, Unbuilt) or type(state) is not tuple:
            raise Damaged("a state for something that has none")
        built = self.maker.built(unbuilt, state)
        for place in unbuilt.places:
            if self.memo.get(place) is unbuilt:
                self.memo[place] = built
        self.push(built)


def _quoted(file: io.BytesIO) -> bytes:
    """A string of protocol 0: quoted, with escapes."""
    text = file.readline().rstrip(b"\n")
    if len(text) < 2 or text[:1] != text[-1:] or text[:1] not in (b"'", b'"'):
        raise Damaged("a string without quotes")
    found: bytes = codecs.escape_decode(text[1:-1])[0]
    return found


def _counted(width: int) -> Callable[[io.BytesIO], bytes]:
    """Reads a string after its length."""

    def read(file: io.BytesIO) -> bytes:
        size = int.from_bytes(file.read(width), "little")
        content = file.read(size)
        if len(content) != size:
            raise Damaged("it ends too early")
        return content

    return read


# Strings of python 2; pickletools would decode them by a codec of its own.
_STRINGS: Final = {
    "STRING": _quoted,
    "SHORT_BINSTRING": _counted(1),
    "BINSTRING": _counted(4),
}
_VALUES: Final = frozenset(
    (
        *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
        *("UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"),
        *("SHORT_BINBYTES", "BINBYTES", "BINBYTES8", "BYTEARRAY8"),
    )
)
_CONSTANTS: Final[dict[str, Callable[[], Any]]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "EMPTY_TUPLE": tuple,
    "EMPTY_SET": set,
    "MARK": lambda: _MARK,
}
_STEPS: Final[dict[str, Callable[[_Machine, Any], object]]] = {
    "PROTO": _Machine.protocol,
    "FRAME": lambda machine, size: None,
    "LIST": lambda machine, _: machine.push(machine.group()),
    "DICT": lambda machine, _: machine.push(machine.pairs(machine.group())),
    "TUPLE": lambda machine, _: machine.push(tuple(machine.group())),
    "TUPLE1": lambda machine, _: machine.push(machine.several(1)),
    "TUPLE2": lambda machine, _: machine.push(machine.several(2)),
    "TUPLE3": lambda machine, _: machine.push(machine.several(3)),
    "FROZENSET": lambda machine, _: machine.push(
        frozenset(machine.maker.elements(machine.group()))
    ),
    "APPEND": lambda machine, _: machine.extend([machine.pop()]),
    "APPENDS": lambda machine, _: machine.extend(machine.group()),
    "ADDITEMS": lambda machine, _: machine.add(machine.group()),
    "SETITEM": lambda machine, _: machine.update(machine.several(2)),
    "SETITEMS": lambda machine, _: machine.update(machine.group()),
    "PUT": _Machine.put,
    "BINPUT": _Machine.put,
    "LONG_BINPUT": _Machine.put,
    "MEMOIZE": _Machine.put,
    "GET": _Machine.get,
    "BINGET": _Machine.get,
    "LONG_BINGET": _Machine.get,
    "POP": lambda machine, _: machine.take(),
    "POP_MARK": lambda machine, _: machine.group(),
    "GLOBAL": lambda machine, text: machine.name(*text.split(" ", 1)),
    "STACK_GLOBAL": lambda machine, _: machine.name(*machine.several(2)),
    "REDUCE": _Machine.call,
    "BUILD": _Machine.build,
}

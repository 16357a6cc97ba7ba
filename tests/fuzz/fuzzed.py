"""Every parser that sees foreign bytes gets bytes that nobody meant: derandomized, few by default.

`make test` takes some examples of each, `make test-all` many more of the same.
"""

import os
import struct
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from feddiv.core.errors import UserError

EXAMPLES = {"few": 40, "many": 1500}


def fuzzed(how: str) -> settings:
    """How many examples, and the same ones every time."""
    return settings(
        max_examples=int(os.environ.get("FEDDIV_FUZZ", EXAMPLES[how])),
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


FEW_AND_MANY = pytest.mark.parametrize("how", ["few", pytest.param("many", marks=pytest.mark.full)])


@st.composite
def spoilt(draw: st.DrawFn, whole: bytes) -> bytes:
    """A good file with some bytes changed, left out, repeated, or cut off."""
    content = bytearray(whole)
    for _ in range(draw(st.integers(1, 6))):
        if not content:
            break
        place = draw(st.integers(0, len(content) - 1))
        length = draw(st.integers(1, 16))
        match draw(st.sampled_from(("set", "drop", "insert", "repeat", "cut", "number"))):
            case "set":
                content[place] = draw(st.integers(0, 255))
            case "drop":
                del content[place : place + length]
            case "insert":
                content[place:place] = draw(st.binary(max_size=length))
            case "repeat":
                content[place:place] = content[place : place + length] * 3
            case "cut":
                del content[place:]
            case "number":
                size = draw(st.sampled_from((2**31 - 1, 2**32 - 1, 2**63 - 1, 0)))
                content[place : place + 8] = struct.pack("<Q", size)
    return bytes(content)


@contextmanager
def as_file(content: bytes, name: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        yield path


def fine_or_refused(read: Callable[[], object]) -> None:
    """Anything but a user's error goes through, and fails the test."""
    with suppress(UserError):
        read()

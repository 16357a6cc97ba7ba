"""Many texts in one array of bytes, and what a text has to be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from feddiv.core.arrays import Rows
from feddiv.core.terminal import shown
from feddiv.data.names import is_utf8

LONGEST: Final = 16 << 20  # bytes of one text
BEGINNING: Final = 40  # characters by which people find a text again
# What may be around a text: zero bytes too, and all that Unicode calls blank.
BLANKS: Final = "\0" + "".join(filter(str.isspace, map(chr, range(0x3001))))


class NoText(ValueError):
    """Why something is no text that can be used; the caller knows its file or row."""


@dataclass(frozen=True, eq=False)
class Texts:
    """Texts in UTF-8, each from its start to its end in `store`; chosen ones share the bytes.

    `names` are those of the files that they came from, or none. It is a `Material` of encoders.
    """

    store: npt.NDArray[np.uint8]
    starts: Rows
    ends: Rows
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, texts: Iterable[str], names: Sequence[str] = ()) -> Texts:
        """These texts in their order."""
        parts = [text.encode() for text in texts]
        ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
        starts = np.concatenate([np.zeros(min(1, len(ends)), dtype=np.int64), ends[:-1]])
        return cls(np.frombuffer(b"".join(parts), dtype=np.uint8), starts, ends, tuple(names))

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, row: int) -> str:
        return self.content(row).decode()

    def __iter__(self) -> Iterator[str]:
        return (self[row] for row in range(len(self)))

    def chosen(self, rows: Rows) -> Texts:
        """These only."""
        names = tuple(self.names[row] for row in rows) if self.names else ()
        return Texts(self.store, self.starts[rows], self.ends[rows], names)

    def name(self, row: int) -> str:
        """What to call it: its file, or how it begins; its row in the table is not known here."""
        if self.names:
            return shown(self.names[row])
        return f"the text that begins with {shown(self[row][:BEGINNING])!r}"

    def content(self, row: int) -> bytes:
        """The text in UTF-8."""
        return self.store[self.starts[row] : self.ends[row]].tobytes()

    def read(self, rows: Sequence[int]) -> tuple[list[str], dict[int, str]]:
        """All of them can be read."""
        return [self[row] for row in rows], {}

    def view(self, samples: list[str], number: int) -> list[str]:
        """There is one only."""
        assert number == 0
        return samples

    def shown(self, row: int) -> str:
        """The text."""
        return self[row]


def usable(text: str) -> str:
    """The text without blanks around it; refused where nothing is left, or far too much."""
    stripped = text.strip(BLANKS)
    if not stripped:
        raise NoText("the text is empty")
    if not is_utf8(stripped):
        raise NoText("it has half a character in it (a lone surrogate), which UTF-8 has not")
    if len(stripped) > LONGEST or len(stripped.encode()) > LONGEST:
        raise NoText(f"the text has more than {LONGEST:,} bytes")
    if "\0" in stripped:
        raise NoText("it has a zero byte in it: it is UTF-16, or no text; save it in UTF-8")
    return stripped


def decoded(content: bytes) -> str:
    """The text of a file's bytes."""
    try:
        return usable(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise NoText(
            f"it is not UTF-8 (byte 0x{content[error.start]:02x} at {error.start:,}); save it in "
            "UTF-8"
        ) from None

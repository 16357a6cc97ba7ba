"""Many images decoded by several processes, in order."""

from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from feddiv.core.errors import UserError
from feddiv.core.processes import ProcessDied, in_order
from feddiv.data.images.listing import NOT_THERE, Images
from feddiv.data.images.pixels import MOST_PIXELS, pixels_and_reach
from feddiv.data.statistics import value_counts

BLOCK: Final = 64  # images that a process decodes at a time


@dataclass(frozen=True, eq=False)
class Block:
    """Rows up to `end` are on the disk, but for those that could not be read.

    `reach` is the largest value, from 0 to 1, of images that have more than eight bits, None where
    there are none.
    """

    end: int
    counts: npt.NDArray[np.int64]
    unreadable: dict[int, str]
    reach: float | None


@dataclass(frozen=True, eq=False)
class Decoder:
    """Writes images as rows of a file that is large enough already."""

    images: Images
    file: Path
    side: int
    channels: int

    def __call__(self, first: int) -> Block:
        """Decode the block that begins at this row."""
        end = min(first + BLOCK, len(self.images))
        rows = np.zeros((end - first, self.side, self.side, self.channels), dtype=np.uint8)
        unreadable, reach = {}, None
        for row in range(first, end):
            found = read_image(self.images, row, self.side, self.channels)
            if isinstance(found, str):
                unreadable[row] = found
            else:
                rows[row - first] = found[0]
                reach = farthest(reach, found[1])
        with self.file.open("r+b") as file:
            file.seek(first * rows[0].nbytes)
            file.write(rows.data)
        readable = [row - first for row in range(first, end) if row not in unreadable]
        return Block(end, value_counts(rows[readable]), unreadable, reach)


def read_image(
    images: Images, row: int, side: int, channels: int
) -> tuple[npt.NDArray[np.uint8], float | None] | str:
    """Pixels and reach of one image (`pixels_and_reach`), or why it cannot be read."""
    try:
        return pixels_and_reach(images.content(row), side, side, channels)
    except Exception as problem:  # Pillow raises whatever its decoders stumble over
        if _may_pass(problem):
            raise UserError(
                f"{images.name(row)}: cannot be read now ({_reason(problem)}); the image may be "
                "whole, so it is not left out: repair that and try again"
            ) from None
        return _reason(problem)


def farthest(*reaches: float | None) -> float | None:
    """The largest of those that are there."""
    return max((reach for reach in reaches if reach is not None), default=None)


def blocks(decoder: Decoder, first: int) -> Generator[Block]:
    """Decode all blocks from this row on, by one process per core; they come in order."""
    starts = range(first, len(decoder.images), BLOCK)
    try:
        yield from in_order(decoder, starts)
    except ProcessDied as death:
        raise UserError(
            f"{decoder.images.name(starts[death.number])}: a process died while it decoded this "
            f"image or one of the {BLOCK - 1} after it; out of memory, or one of them breaks the "
            "decoder"
        ) from None


def _may_pass(problem: Exception) -> bool:
    """Whether it is the machine that failed (rights, disk, open files, memory), not the image."""
    if isinstance(problem, OSError):  # Pillow's own have no number
        return problem.errno is not None and problem.errno not in NOT_THERE
    return isinstance(problem, MemoryError)


def _reason(problem: Exception) -> str:
    """In a few words; Pillow names the whole path, or an object in memory."""
    if isinstance(problem, FileNotFoundError):
        return "there is no such file"
    if isinstance(problem, OSError) and problem.strerror:
        return problem.strerror
    if isinstance(problem, MemoryError):
        return "out of memory"
    if type(problem).__name__ == "UnidentifiedImageError":
        return "not an image that Pillow knows"
    if type(problem).__name__ == "DecompressionBombError":
        return f"more than {MOST_PIXELS:,} pixels"
    text = str(problem).strip()
    return text.splitlines()[0] if text else type(problem).__name__

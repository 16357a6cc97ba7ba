"""Many images decoded by several processes, in order."""

import multiprocessing
import os
import sys
from collections import deque
from collections.abc import Generator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from feddiv.core.errors import UserError
from feddiv.core.interrupts import left_to_parent
from feddiv.data.images.listing import NOT_THERE, Images
from feddiv.data.images.pixels import MOST_PIXELS, pixels_and_reach
from feddiv.data.statistics import value_counts

BLOCK: Final = 64  # images that a process decodes at a time
AHEAD: Final = 4  # blocks per process that may be under way


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
            try:
                content = self.images.content(row)
                found = pixels_and_reach(content, self.side, self.side, self.channels)
                rows[row - first] = found[0]
                reach = farthest(reach, found[1])
            except Exception as problem:  # Pillow raises whatever its decoders stumble over
                if _may_pass(problem):
                    raise UserError(
                        f"{self.images.name(row)}: cannot be read now ({_reason(problem)}); the "
                        "image may be whole, so it is not left out: repair that and try again"
                    ) from None
                unreadable[row] = _reason(problem)
        with self.file.open("r+b") as file:
            file.seek(first * rows[0].nbytes)
            file.write(rows.data)
        readable = [row - first for row in range(first, end) if row not in unreadable]
        return Block(end, value_counts(rows[readable]), unreadable, reach)


def farthest(*reaches: float | None) -> float | None:
    """The largest of those that are there."""
    return max((reach for reach in reaches if reach is not None), default=None)


def blocks(decoder: Decoder, first: int) -> Generator[Block]:
    """Decode all blocks from this row on, by one process per core; they come in order."""
    starts = range(first, len(decoder.images), BLOCK)
    processes = min(_cores(), len(starts))
    if processes < 2:
        yield from map(decoder, starts)
        return
    # A fork shares what is listed; elsewhere it may not be safe and a copy is sent.
    method = "fork" if sys.platform == "linux" else "spawn"
    others = set(multiprocessing.active_children())
    with ProcessPoolExecutor(
        processes, multiprocessing.get_context(method), _begin, (decoder,)
    ) as pool:
        waiting: deque[tuple[int, Future[Block]]] = deque()
        try:
            for start in starts:
                waiting.append((start, pool.submit(_decoded, start)))
                if len(waiting) >= AHEAD * processes:
                    yield _result(decoder, *waiting.popleft())
            while waiting:
                yield _result(decoder, *waiting.popleft())
        except BaseException:  # they leave signals to us, and one may wait for a disk forever
            for process in set(multiprocessing.active_children()) - others:
                process.kill()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _result(decoder: Decoder, start: int, future: "Future[Block]") -> Block:
    try:
        return future.result()
    except BrokenProcessPool:
        raise UserError(
            f"{decoder.images.name(start)}: a process died while it decoded this image or one of "
            f"the {BLOCK * AHEAD} after it; out of memory, or one of them breaks the decoder"
        ) from None


_decoder: Decoder | None = None  # of a decoding process


def _begin(decoder: Decoder) -> None:
    global _decoder
    left_to_parent()
    _decoder = decoder


def _decoded(start: int) -> Block:
    assert _decoder is not None
    return _decoder(start)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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

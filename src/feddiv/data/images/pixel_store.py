"""Images decoded and resized once, into a file that all processes map and nobody holds whole.

A store is a folder named after what is in it: `about.json` and, named so last, `pixels` (uint8
[N,H,W,C], nothing else). A store that is being made has `pixels.part` and `progress.json` instead,
and is gone on with after a kill. Where images cannot be read, the last ones take their places: that
moves as few rows as there are gaps.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from feddiv.core.errors import UserError
from feddiv.core.files import Lock, settle, write_json
from feddiv.data.images.decode import Decoder, blocks, farthest
from feddiv.data.images.listing import Images
from feddiv.data.published.places import cache_folder
from feddiv.data.watcher import DataWatcher

VERSION: Final = 2  # of the rules by which a file becomes pixels
SAVED_EVERY: Final = 15.0  # seconds between notes of how far it is


@dataclass(frozen=True, eq=False)
class Pixels:
    """Images that could be read.

    `kept` are their rows in the list, `unreadable` the other rows with reasons; `counts` is how
    often each value occurs in each channel, int64 [C,256]. `reach` is the largest value, from 0 to
    1, of images that had more than eight bits, None where there are none.
    """

    inputs: torch.Tensor
    pages: mmap.mmap | None
    kept: npt.NDArray[np.int64]
    unreadable: dict[int, str]
    counts: npt.NDArray[np.int64]
    reach: float | None = None

    @classmethod
    def none(cls, side: int, channels: int) -> Pixels:
        """No images of this size."""
        inputs = torch.empty((0, side, side, channels), dtype=torch.uint8)
        counts = np.zeros((channels, 256), dtype=np.int64)
        return cls(inputs, None, np.empty(0, dtype=np.int64), {}, counts)


@dataclass
class _Progress:
    done: int
    counts: npt.NDArray[np.int64]
    unreadable: dict[int, str] = field(default_factory=dict)
    reach: float | None = None

    def tree(self) -> dict[str, Any]:
        bad = {str(row): reason for row, reason in self.unreadable.items()}
        return {
            "done": self.done,
            "counts": self.counts.tolist(),
            "unreadable": bad,
            "reach": self.reach,
        }

    @classmethod
    def of(cls, tree: dict[str, Any]) -> _Progress:
        bad = {int(row): str(reason) for row, reason in tree["unreadable"].items()}
        reach = None if tree["reach"] is None else float(tree["reach"])
        return cls(int(tree["done"]), np.array(tree["counts"], dtype=np.int64), bad, reach)


class PixelStore:
    """The store of these images at `side` x `side` pixels, made or not."""

    def __init__(self, images: Images, side: int, channels: int) -> None:
        self.images, self.side, self.channels = images, side, channels
        digest = hashlib.sha256(f"{VERSION} {side} {channels}".encode())
        for identity in images.identities():
            digest.update(len(identity).to_bytes(4, "little") + identity)
        self.folder = cache_folder() / "images" / digest.hexdigest()[:32]
        self.row_bytes = side * side * channels

    @property
    def ready(self) -> bool:
        """Whether it is there and whole."""
        return self._about() is not None

    @property
    def missing_bytes(self) -> int:
        """What making it will add to the disk."""
        if self.ready:
            return 0
        there = 0
        with suppress(OSError, AttributeError):  # Windows does not count blocks
            there = (self.folder / "pixels.part").stat().st_blocks * 512
        return max(0, len(self.images) * self.row_bytes - there)

    def opened(self) -> Pixels:
        """Map what is there."""
        about = self._about()
        assert about is not None
        rows = len(self.images) - len(about.unreadable)
        with (self.folder / "pixels").open("rb") as file:
            pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        with warnings.catch_warnings():
            # torch would rather have a writable map, which the kernel refuses beyond its memory.
            warnings.filterwarnings("ignore", message="The given buffer is not writable")
            flat = torch.frombuffer(pages, dtype=torch.uint8)
        kept = np.arange(rows)
        for gap, row in _moves(len(self.images), about.unreadable):
            kept[gap] = row
        inputs = flat.view(rows, self.side, self.side, self.channels)
        return Pixels(inputs, pages, kept, about.unreadable, about.counts, about.reach)

    def make(self, watcher: DataWatcher, what: str) -> None:
        """Decode what is not there yet; one process does so, others wait for it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        lock, told = Lock.of(self.folder), False
        while lock is None:
            if not told:
                watcher.note(f"another process is reading the same {what}: waiting for it")
                told = True
            time.sleep(0.2)
            lock = Lock.of(self.folder)
        try:
            if not self.ready:
                self._write(lambda done: watcher.prepares(what, done, len(self.images)))
        finally:
            lock.release()

    def _about(self) -> _Progress | None:
        about, size = self._noted("about.json", "pixels")
        if about is None:
            return None
        rows = len(self.images) - len(about.unreadable)
        return about if rows and size == rows * self.row_bytes else None

    def _noted(self, notes: str, pixels: str) -> tuple[_Progress | None, int]:
        """What is noted about a file of pixels, and its size; nothing where either is not there.

        A disk that fails to answer is no reason to make a store anew, so that is an error.
        """
        try:
            progress = _Progress.of(json.loads((self.folder / notes).read_text()))
            size = (self.folder / pixels).stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            return None, 0
        except (ValueError, KeyError, TypeError, AttributeError):  # malformed
            return None, 0
        except OSError as error:
            raise UserError(
                f"{self.folder}: cannot be read ({error.strerror or error}); it holds images that "
                "have been read before"
            ) from None
        rows = range(len(self.images))
        whole = progress.counts.shape == (self.channels, 256) and progress.done <= len(rows)
        return (
            progress if whole and all(row in rows for row in progress.unreadable) else None
        ), size

    def _write(self, report: Callable[[int], None]) -> None:
        part, notes = self.folder / "pixels.part", self.folder / "progress.json"
        progress = self._begun(part)
        saved = time.monotonic()
        decoder = Decoder(self.images, part, self.side, self.channels)
        with closing(blocks(decoder, progress.done)) as decoded:
            for block in decoded:
                progress.done = block.end
                progress.counts += block.counts
                progress.unreadable |= block.unreadable
                progress.reach = farthest(progress.reach, block.reach)
                report(progress.done)
                if time.monotonic() - saved > SAVED_EVERY:
                    settle(part)
                    write_json(notes, progress.tree())
                    saved = time.monotonic()
        if len(progress.unreadable) == len(self.images):
            row, reason = next(iter(progress.unreadable.items()))
            raise UserError(
                f"{self.images.name(row)}: {reason}; none of {len(self.images)} images can be read"
            )
        settle(part)
        write_json(notes, progress.tree())  # from here on a kill costs nothing
        self._close_gaps(part, progress)
        settle(part)
        write_json(self.folder / "about.json", progress.tree())
        os.replace(part, self.folder / "pixels")
        notes.unlink(missing_ok=True)

    def _begun(self, part: Path) -> _Progress:
        """How far an earlier process came with the same images."""
        progress, size = self._noted("progress.json", part.name)
        if progress is not None:
            rows = len(self.images)
            closed = rows - len(progress.unreadable) if progress.done == rows else rows
            if size in (rows * self.row_bytes, closed * self.row_bytes):
                return progress
        for old in ("about.json", "pixels", "progress.json"):
            (self.folder / old).unlink(missing_ok=True)
        with part.open("wb") as file:
            file.truncate(len(self.images) * self.row_bytes)
        return _Progress(0, np.zeros((self.channels, 256), dtype=np.int64))

    def _close_gaps(self, part: Path, progress: _Progress) -> None:
        """Put the last rows where rows could not be read; doing so again changes nothing."""
        left = (len(self.images) - len(progress.unreadable)) * self.row_bytes
        with part.open("r+b") as file:
            if file.seek(0, os.SEEK_END) == left:
                return
            for gap, row in _moves(len(self.images), progress.unreadable):
                file.seek(row * self.row_bytes)
                content = file.read(self.row_bytes)
                file.seek(gap * self.row_bytes)
                file.write(content)
            file.flush()
            settle(part)  # rows are cut off only when they are elsewhere
            file.truncate(left)


def _moves(rows: int, unreadable: Iterable[int]) -> Iterator[tuple[int, int]]:
    """For every gap among the rows that stay the row that takes its place."""
    bad = set(unreadable)
    left = rows - len(bad)
    last = (row for row in range(left, rows) if row not in bad)
    return zip(sorted(gap for gap in bad if gap < left), last, strict=True)

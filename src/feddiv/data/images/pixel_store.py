"""Images decoded and resized once, into a file that all processes map and nobody holds whole.

A store is a folder named after what is in it: `pixels` (uint8 [N,H,W,C], nothing else) and, written
last, `about.json`. A store that is being made has `pixels.part` and `progress.json` instead, and is
gone on with after a kill.
"""

import hashlib
import json
import mmap
import os
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from feddiv.data.images.catalogue import Images
from feddiv.data.images.decode import Decoder, blocks
from feddiv.data.places import cache_folder
from feddiv.data.teller import Teller
from feddiv.errors import UserError
from feddiv.files import Lock, settle, write_json

VERSION: Final = 1  # of the rules by which a file becomes pixels
SAVED_EVERY: Final = 15.0  # seconds between notes of how far it is


@dataclass(frozen=True, eq=False)
class Pixels:
    """Images that could be read, in their old order.

    `kept` are their rows in the list, `unreadable` the other rows with reasons; `counts` is how
    often each value occurs in each channel, int64 [C,256].
    """

    inputs: Tensor
    pages: mmap.mmap | None
    kept: npt.NDArray[np.int64]
    unreadable: dict[int, str]
    counts: npt.NDArray[np.int64]

    @classmethod
    def none(cls, side: int, channels: int) -> "Pixels":
        """No images of this size."""
        inputs = torch.empty((0, side, side, channels), dtype=torch.uint8)
        counts = np.zeros((channels, 256), dtype=np.int64)
        return cls(inputs, None, np.empty(0, dtype=np.int64), {}, counts)


@dataclass
class _Progress:
    done: int
    counts: npt.NDArray[np.int64]
    unreadable: dict[int, str] = field(default_factory=dict)

    def tree(self) -> dict[str, Any]:
        bad = {str(row): reason for row, reason in self.unreadable.items()}
        return {"done": self.done, "counts": self.counts.tolist(), "unreadable": bad}

    @classmethod
    def of(cls, tree: dict[str, Any]) -> "_Progress":
        bad = {int(row): str(reason) for row, reason in tree["unreadable"].items()}
        return cls(int(tree["done"]), np.array(tree["counts"], dtype=np.int64), bad)


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
        kept = np.setdiff1d(np.arange(len(self.images)), np.array(list(about.unreadable), int))
        inputs = flat.view(rows, self.side, self.side, self.channels)
        return Pixels(inputs, pages, kept, about.unreadable, about.counts)

    def make(self, teller: Teller, what: str) -> None:
        """Decode what is not there yet; one process does so, others wait for it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        lock, told = Lock.of(self.folder), False
        while lock is None:
            if not told:
                teller.note(f"another process is reading the same {what}: waiting for it")
                told = True
            time.sleep(0.2)
            lock = Lock.of(self.folder)
        try:
            if not self.ready:
                self._write(lambda done: teller.prepares(what, done, len(self.images)))
        finally:
            lock.release()

    def _about(self) -> _Progress | None:
        try:
            about = _Progress.of(json.loads((self.folder / "about.json").read_text()))
            size = (self.folder / "pixels").stat().st_size
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        rows = len(self.images) - len(about.unreadable)
        return about if rows and size == rows * self.row_bytes else None

    def _write(self, report: Callable[[int], None]) -> None:
        part, notes = self.folder / "pixels.part", self.folder / "progress.json"
        progress = self._begun(part, notes)
        saved = time.monotonic()
        decoder = Decoder(self.images, part, self.side, self.channels)
        for block in blocks(decoder, progress.done):
            progress.done = block.end
            progress.counts += block.counts
            progress.unreadable |= block.unreadable
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
        notes.unlink(missing_ok=True)  # from here on the rows move
        self._close_gaps(part, progress)
        settle(part)
        os.replace(part, self.folder / "pixels")
        write_json(self.folder / "about.json", progress.tree())

    def _begun(self, part: Path, notes: Path) -> _Progress:
        """How far an earlier process came with the same images."""
        try:
            progress = _Progress.of(json.loads(notes.read_text()))
            if part.stat().st_size == len(self.images) * self.row_bytes:
                return progress
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            pass
        for old in ("about.json", "pixels", "progress.json"):
            (self.folder / old).unlink(missing_ok=True)
        with part.open("wb") as file:
            file.truncate(len(self.images) * self.row_bytes)
        return _Progress(0, np.zeros((self.channels, 256), dtype=np.int64))

    def _close_gaps(self, part: Path, progress: _Progress) -> None:
        """Move rows up over those that could not be read."""
        if not progress.unreadable:
            return
        bad, to = set(progress.unreadable), min(progress.unreadable)
        with part.open("r+b") as file:
            for row in range(to, len(self.images)):
                if row not in bad:
                    file.seek(row * self.row_bytes)
                    content = file.read(self.row_bytes)
                    file.seek(to * self.row_bytes)
                    file.write(content)
                    to += 1
            file.truncate(to * self.row_bytes)

"""The vectors that one encoder has ever made, in a file that all processes map.

A store is a folder named after the encoder: `vectors` (float16 [M,D], nothing else), and `keys`, 16
bytes for each of them that say which view of which sample it is. Vectors are only ever added, and
settle on the disk before their keys are written: a vector counts when it has a key. So a process
that is killed loses what it has not noted yet and nothing else, whoever reads is never disturbed,
and a sample that occurs in several data sets, subsets or splits is encoded once.
"""

from __future__ import annotations

import mmap
import os
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from feddiv.core.arrays import Rows
from feddiv.core.errors import UserError
from feddiv.core.files import Lock, settle, write_json
from feddiv.data.encoding.material import KEY, Keys
from feddiv.data.published.places import cache_folder
from feddiv.data.watcher import DataWatcher
from feddiv.encoders.contract import Encoder

Vectors = npt.NDArray[np.float16]
CHECKED: Final = 1 << 18  # numbers at a time, which stay in a core's cache
BUT_SIGN: Final = np.int16(0x7FFF)  # of float16
NO_NUMBER: Final = 0x7C00  # infinity; what is above is NaN


class FeatureStore:
    """The store of this encoder, made or not."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder, self.width = encoder, encoder.width
        self.folder = cache_folder() / "features" / encoder.fingerprint[:32]
        self._vectors, self._keys = self.folder / "vectors", self.folder / "keys"

    @property
    def row_bytes(self) -> int:
        """Of one vector."""
        return 2 * self.width

    def places(self, wanted: Keys) -> Rows:
        """Where the vectors of these keys [..., 2] lie, -1 where they are not there yet."""
        count = self._count()
        known = np.frombuffer(self._bytes(self._keys, count * KEY), dtype="<u8").reshape(-1, 2)
        found = np.full(wanted.shape[:-1], -1, dtype=np.int64)
        if not count:
            return found
        order = np.argsort(known[:, 0], kind="stable")
        at = np.searchsorted(known[order, 0], wanted[..., 0])
        while True:
            row = order[np.minimum(at, count - 1)]
            same = (known[row] == wanted).all(axis=-1)
            found[same] = row[same]
            # A damaged key may have the same first half; the right one comes after it.
            half = ~same & (at < count) & (known[row, 0] == wanted[..., 0])
            if not half.any():
                return found
            at = at + half

    def opened(self) -> tuple[torch.Tensor, mmap.mmap | None]:
        """All vectors that are there, float16 [M,D], and their mapping."""
        count = self._count()
        if not count:
            return torch.empty((0, self.width), dtype=torch.float16), None
        with self._vectors.open("rb") as file:
            pages = mmap.mmap(file.fileno(), count * self.row_bytes, access=mmap.ACCESS_READ)
        with warnings.catch_warnings():
            # torch would rather have a writable map, which the kernel refuses beyond its memory.
            warnings.filterwarnings("ignore", message="The given buffer is not writable")
            flat = torch.frombuffer(pages, dtype=torch.float16)
        return flat.view(count, self.width), pages

    def check_finite(self, vectors: torch.Tensor, places: Rows) -> None:
        """Refuse vectors [M,D] that no encoder has made, of those that lie at these places.

        One pass over their bits: a number whose exponent is all ones is none.
        """
        bits = vectors.view(torch.int16).numpy()
        rows, step = places.ravel(), max(1, CHECKED // self.width)
        for start in range(0, len(rows), step):
            some = bits[rows[start : start + step]]
            if some.size and np.bitwise_and(some, BUT_SIGN, out=some).max() >= NO_NUMBER:
                raise UserError(
                    f"{self.folder}: the cache of feature vectors is damaged (numbers in it are "
                    "not finite); delete the folder, and samples are encoded anew"
                )

    @contextmanager
    def locked(self, watcher: DataWatcher) -> Iterator[None]:
        """One process adds vectors, others wait for it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        lock, told = Lock.of(self.folder), False
        while lock is None:
            if not told:
                name = self.encoder.choice.name
                watcher.note(f"another process is encoding with {name}: waiting for it")
                told = True
            time.sleep(0.2)
            lock = Lock.of(self.folder)
        try:
            self._cut()
            yield
        finally:
            lock.release()

    def add(self, keys: Keys, vectors: Vectors) -> None:
        """Append vectors [n,D] and their keys [n,2]; only under the lock."""
        for path, rows in ((self._vectors, vectors), (self._keys, keys)):
            try:
                with path.open("ab") as file:
                    file.write(np.ascontiguousarray(rows).data)
                settle(path)
            except OSError as error:  # a full disk: what is half written is cut by the next one
                raise UserError(
                    f"{path}: cannot be written ({error.strerror or error}); it holds features of "
                    "samples, and those that are there stay: make room, then begin again"
                ) from None

    def _cut(self) -> None:
        """Drop what a killed process has not noted, so that rows and keys go on side by side."""
        count = self._count()
        for path, size in ((self._vectors, self.row_bytes), (self._keys, KEY)):
            with path.open("ab") as file:
                file.truncate(count * size)
        choice = self.encoder.choice
        about = {"encoder": choice.name, "sha256": choice.sha256, "width": self.width}
        if not (self.folder / "about.json").exists():  # for people who wonder what this is
            write_json(self.folder / "about.json", {**about, "rules": self.encoder.rules})

    def _count(self) -> int:
        sizes = (_size(self._vectors) // self.row_bytes, _size(self._keys) // KEY)
        return min(sizes)

    def _bytes(self, path: Path, count: int) -> bytes:
        if not count:
            return b""
        with path.open("rb") as file:
            return file.read(count)


def _size(path: Path) -> int:
    """Nothing where it is not there; a disk that fails to answer is no reason to encode anew."""
    try:
        return os.stat(path).st_size
    except (FileNotFoundError, NotADirectoryError):
        return 0
    except OSError as error:
        raise UserError(
            f"{path}: cannot be read ({error.strerror or error}); it holds features of samples "
            "that have been encoded before"
        ) from None

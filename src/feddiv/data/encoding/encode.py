"""Samples that were never encoded before go through the encoder, by several processes."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch

from feddiv.core.arrays import Rows
from feddiv.core.disk_room import free_bytes, in_bytes
from feddiv.core.errors import UserError
from feddiv.core.processes import ProcessDied, in_order
from feddiv.data.encoding.feature_store import FeatureStore, Vectors
from feddiv.data.encoding.material import Keys, Material, keys
from feddiv.data.watcher import DataWatcher
from feddiv.encoders.contract import Encoder, NotFinite, taken

MANY: Final = 1000  # vectors: fewer are made in no time
BATCHES: Final = 8  # that a process encodes at a time: so much is lost by a kill


@dataclass(frozen=True, eq=False)
class Features:
    """Where the vectors of samples lie in the store, int64 [n, views].

    `kept` are the rows of the samples that could be read, `unreadable` the others with reasons.
    """

    places: Rows
    kept: Rows
    unreadable: dict[int, str]


@dataclass(frozen=True, eq=False)
class _Chunk:
    """What became of some samples: `rows` and `views` say what each vector is of."""

    rows: Rows
    views: Rows
    vectors: Vectors
    unreadable: dict[int, str]


@dataclass(frozen=True, eq=False)
class _Encode:
    """Encodes some rows of a material, those views of them that are `missing` [N, views]."""

    encoder: Encoder
    material: Material
    missing: np.ndarray[Any, np.dtype[np.bool_]]

    def __call__(self, rows: Rows) -> _Chunk:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # more would change the bits; there is a process for each core
        try:
            return self._chunk(rows)
        finally:
            torch.set_num_threads(threads)

    def _chunk(self, rows: Rows) -> _Chunk:
        found: list[tuple[Rows, Rows, Vectors]] = []
        unreadable: dict[int, str] = {}
        for start in range(0, len(rows), self.encoder.batch):
            batch = rows[start : start + self.encoder.batch]
            samples, bad = self.material.read(batch.tolist())
            unreadable |= bad
            read = np.array([row for row in batch if row not in bad], dtype=np.int64)
            for view in range(self.missing.shape[1]):
                chosen = np.flatnonzero(self.missing[read, view])
                if len(chosen):
                    some = self.material.view(taken(samples, chosen), view)
                    vectors = self._vectors(some, read[chosen])
                    found.append((read[chosen], np.full(len(chosen), view), vectors))
        empty = np.empty(0, np.int64)
        nothing = np.empty((0, self.encoder.width), np.float16)
        return _Chunk(
            np.concatenate([empty, *(rows for rows, _, _ in found)]),
            np.concatenate([empty, *(views for _, views, _ in found)]),
            np.concatenate([nothing, *(vectors for _, _, vectors in found)]),
            unreadable,
        )

    def _vectors(self, samples: Any, rows: Rows) -> Vectors:
        """float16 [n,D], or which sample has none."""
        try:
            found: Vectors = self.encoder.vectors(samples).numpy()
            return found
        except NotFinite as problem:
            name = self.material.name(int(rows[problem.row]))
            raise NotFinite(problem.encoder, problem.row, name) from None


def features_of(
    store: FeatureStore, material: Material, views: int, watcher: DataWatcher, what: str
) -> Features:
    """The vectors of all samples; those that the store lacks are encoded now."""
    wanted = keys(material, views)
    places, unreadable = store.places(wanted), {}
    if (places < 0).any():
        with store.locked(watcher):
            unreadable = _encode(store, material, wanted, watcher, what)
        places = store.places(wanted)
    kept = np.array([row for row in range(len(wanted)) if row not in unreadable], dtype=np.int64)
    return Features(places[kept], kept, unreadable)


def _encode(
    store: FeatureStore, material: Material, wanted: Keys, watcher: DataWatcher, what: str
) -> dict[int, str]:
    """Encode what is missing now that nobody else adds to the store; why some cannot be read."""
    missing = store.places(wanted) < 0
    rows = _once(wanted[:, 0], np.flatnonzero(missing.any(axis=1)))
    if not len(rows):
        return {}
    work = _Encode(store.encoder, material, missing)
    step = BATCHES * store.encoder.batch
    chunks = [rows[start : start + step] for start in range(0, len(rows), step)]
    _check_room(store, int(missing[rows].sum()), watcher)
    done, unreadable = len(wanted) - len(rows), dict[int, str]()
    watcher.prepares(what, done, len(wanted))
    try:
        with closing(in_order(work, chunks)) as results:
            for chunk, result in zip(chunks, results, strict=True):
                if len(result.rows):
                    store.add(wanted[result.rows, result.views], result.vectors)
                unreadable |= result.unreadable
                done += len(chunk)
                watcher.prepares(what, done, len(wanted))
    except ProcessDied as death:
        raise UserError(
            f"data.encoder={store.encoder.choice.name}: a process died while it encoded "
            f"{material.name(int(chunks[death.number][0]))} or one soon after; out of memory, or "
            "the encoder breaks"
        ) from None
    return _with_twins(wanted[:, 0], unreadable)


def _check_room(store: FeatureStore, count: int, watcher: DataWatcher) -> None:
    needed, free = count * store.row_bytes, free_bytes(store.folder)
    if needed > free:
        raise UserError(
            f"data.encoder={store.encoder.choice.name}: {count:,} feature vectors take "
            f"{in_bytes(needed)} in {store.folder}, where {in_bytes(free)} are free; make room, "
            "set FEDDIV_CACHE to a folder on another disk, or choose fewer data.images"
        )
    if count >= MANY:
        watcher.note(
            f"{count:,} feature vectors are made by {store.encoder.choice.name}, once: "
            f"{in_bytes(needed)} in {store.folder}"
        )


def _once(wanted: Keys, rows: Rows) -> Rows:
    """Of samples that are the same, the first."""
    _, first = np.unique(wanted[rows], axis=0, return_index=True)
    return np.asarray(rows[np.sort(first)])


def _with_twins(wanted: Keys, unreadable: dict[int, str]) -> dict[int, str]:
    """A file that is listed twice cannot be read twice."""
    reasons = {wanted[row].tobytes(): reason for row, reason in unreadable.items()}
    if not reasons:
        return {}
    found = ((row, reasons.get(key.tobytes())) for row, key in enumerate(wanted))
    return {row: reason for row, reason in found if reason is not None}

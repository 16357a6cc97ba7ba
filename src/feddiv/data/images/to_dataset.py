"""From a catalogue of images to a data set, through stores on disk."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import torch

from feddiv.core.errors import UserError
from feddiv.data.dataset import Dataset, Split
from feddiv.data.images.listing import ImageListing, Images, some
from feddiv.data.images.pixel_store import Pixels, PixelStore
from feddiv.data.published.places import cache_folder
from feddiv.data.statistics import counted_statistics
from feddiv.data.watcher import DataWatcher

ALWAYS_FORGIVEN: Final = 10  # unreadable images; beyond that, a tenth
DIM: Final = 1 / 8  # images of 16 bits none of which is brighter hold fewer bits than they say


def assembled(catalogue: ImageListing, watcher: DataWatcher) -> Dataset:
    """Read the images, or find that they have been read before, and put the data set together."""
    size, channels, margin = catalogue.size, catalogue.channels, catalogue.margin
    stores = {"training images": PixelStore(catalogue.train.images, size + margin, channels)}
    if len(catalogue.test):
        stores["test images"] = PixelStore(catalogue.test.images, size, channels)
    _make(stores, watcher, size, margin)
    train, *tests = (store.opened() for store in stores.values())
    test = tests[0] if tests else Pixels.none(size, channels)
    read = {
        "training images": (catalogue.train.images, train),
        "test images": (catalogue.test.images, test),
    }
    if catalogue.split_here:  # which of them fell to test is no fault of theirs
        _judge("images", list(read.values()), watcher)
    else:
        for what, part in read.items():
            _judge(what, [part], watcher)
    for what, (_, pixels) in read.items():
        _warn_if_dim(what, pixels, watcher)

    catalogue = catalogue.chosen(train.kept).chosen_test(test.kept)
    clients, holder = _clients(catalogue)
    mean, std = counted_statistics(train.counts)
    return Dataset(
        name=catalogue.name,
        classes=catalogue.classes,
        train=Split(train.inputs, torch.from_numpy(catalogue.train.labels), train.pages),
        test=Split(test.inputs, torch.from_numpy(catalogue.test.labels), test.pages),
        mean=catalogue.mean or mean,
        std=catalogue.std or std,
        augment=catalogue.augment,
        truth=None if catalogue.truth is None else torch.from_numpy(catalogue.truth),
        clients=clients,
        holder=holder,
        rows=None if catalogue.rows is None else torch.from_numpy(catalogue.rows),
        window=(size, size) if margin else None,
        split_here=catalogue.split_here,
        columns=catalogue.columns,
        names=catalogue.train.images,
    )


def _make(stores: dict[str, PixelStore], watcher: DataWatcher, size: int, margin: int) -> None:
    missing = {what: store for what, store in stores.items() if not store.ready}
    if not missing:
        return
    needed = sum(store.missing_bytes for store in missing.values())
    count = sum(len(store.images) for store in missing.values())
    place = cache_folder() / "images"
    free = shutil.disk_usage(_existing(place)).free
    if needed > free:
        raise UserError(
            f"data.size={size}: {count:,} images take {_bytes(needed)} in {place}, where "
            f"{_bytes(free)} are free; make room, set FEDDIV_CACHE to a folder on another disk, or "
            "choose a smaller data.size or data.images"
        )
    stored = size + margin
    more = f" (training images {stored}x{stored})" if margin else ""
    watcher.note(
        f"{count:,} images are resized to {size}x{size} pixels{more}, once: {_bytes(needed)} in "
        f"{place}"
    )
    try:
        for what, store in missing.items():
            store.make(watcher, what)
    except OSError as error:
        raise UserError(f"{place}: cannot be written ({error.strerror or error})") from None


def _judge(what: str, parts: Sequence[tuple[Images, Pixels]], watcher: DataWatcher) -> None:
    """A few images that cannot be read are left out and named; many are no accident."""
    bad = [
        f"{images.name(row)}: {reason}"
        for images, pixels in parts
        for row, reason in sorted(pixels.unreadable.items())
    ]
    if not bad:
        return
    listed = sum(len(images) for images, _ in parts)
    which = f"{len(bad):,} of {listed:,} ({some(bad)})"
    if len(bad) > max(ALWAYS_FORGIVEN, listed // 10):
        raise UserError(f"{what} that cannot be read are more than a tenth: {which}")
    watcher.note(f"{what} that cannot be read, left out: {which}")


def _warn_if_dim(what: str, pixels: Pixels, watcher: DataWatcher) -> None:
    if pixels.reach is not None and pixels.reach < DIM:
        watcher.note(
            f"{what} of more than 8 bits use no more than {pixels.reach:.1%} of their range and "
            "become nearly black: spread their values over all 16 bits"
        )


def _clients(catalogue: ImageListing) -> tuple[tuple[str, ...], torch.Tensor | None]:
    """The clients that have samples left, numbered without gaps."""
    if catalogue.holder is None:
        return (), None
    present, holder = np.unique(catalogue.holder, return_inverse=True)
    return tuple(catalogue.clients[client] for client in present), torch.from_numpy(holder)


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if path.exists())


def _bytes(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"

"""From a catalogue of images to a data set, through stores on disk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import torch

from feddiv.core.disk_room import free_bytes, in_bytes
from feddiv.core.errors import UserError
from feddiv.data.dataset import Dataset, Split
from feddiv.data.images.listing import ImageListing, Images, some
from feddiv.data.images.pixel_store import Pixels, PixelStore
from feddiv.data.published.places import cache_folder
from feddiv.data.statistics import counted_statistics
from feddiv.data.transform import Augment
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
    judge(catalogue, train.unreadable, test.unreadable, watcher)
    for what, pixels in (("training images", train), ("test images", test)):
        _warn_if_dim(what, pixels, watcher)

    catalogue = catalogue.chosen(train.kept).chosen_test(test.kept)
    mean, std = counted_statistics(train.counts)
    return as_dataset(
        catalogue,
        train=Split(train.inputs, torch.from_numpy(catalogue.train.labels), train.pages),
        test=Split(test.inputs, torch.from_numpy(catalogue.test.labels), test.pages),
        mean=catalogue.mean or mean,
        std=catalogue.std or std,
        augment=catalogue.augment,
        window=(size, size) if margin else None,
    )


def as_dataset(
    catalogue: ImageListing,
    *,
    train: Split,
    test: Split,
    mean: tuple[float, ...],
    std: tuple[float, ...],
    augment: Augment,
    window: tuple[int, int] | None = None,
) -> Dataset:
    """The data set of these images, all of which have become inputs."""
    clients, holder = _clients(catalogue)
    return Dataset(
        name=catalogue.name,
        classes=catalogue.classes,
        train=train,
        test=test,
        mean=mean,
        std=std,
        augment=augment,
        truth=None if catalogue.truth is None else torch.from_numpy(catalogue.truth),
        clients=clients,
        holder=holder,
        rows=None if catalogue.rows is None else torch.from_numpy(catalogue.rows),
        window=window,
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
    free = free_bytes(place)
    if needed > free:
        raise UserError(
            f"data.size={size}: {count:,} images take {in_bytes(needed)} in {place}, where "
            f"{in_bytes(free)} are free; make room, set FEDDIV_CACHE to a folder on another disk, "
            "or choose a smaller data.size or data.images"
        )
    stored = size + margin
    more = f" (training images {stored}x{stored})" if margin else ""
    watcher.note(
        f"{count:,} images are resized to {size}x{size} pixels{more}, once: {in_bytes(needed)} in "
        f"{place}"
    )
    try:
        for what, store in missing.items():
            store.make(watcher, what)
    except OSError as error:
        raise UserError(f"{place}: cannot be written ({error.strerror or error})") from None


def judge(
    catalogue: ImageListing, train: dict[int, str], test: dict[int, str], watcher: DataWatcher
) -> None:
    """Of the images that cannot be read, by row, the reasons; refused where they are many."""
    read = {
        "training images": (catalogue.train.images, train),
        "test images": (catalogue.test.images, test),
    }
    if catalogue.split_here:  # which of them fell to test is no fault of theirs
        _judge("images", list(read.values()), watcher)
        return
    for what, part in read.items():
        _judge(what, [part], watcher)


def _judge(what: str, parts: Sequence[tuple[Images, dict[int, str]]], watcher: DataWatcher) -> None:
    """A few images that cannot be read are left out and named; many are no accident."""
    bad = [
        f"{images.name(row)}: {reason}"
        for images, unreadable in parts
        for row, reason in sorted(unreadable.items())
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

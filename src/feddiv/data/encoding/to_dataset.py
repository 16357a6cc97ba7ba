"""From the samples of a source to a data set of feature vectors, through the cache."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from feddiv.core.errors import UserError
from feddiv.data.data_options import DataOptions
from feddiv.data.dataset import Dataset, Split
from feddiv.data.encoding.encode import Features, features_of
from feddiv.data.encoding.feature_store import FeatureStore
from feddiv.data.encoding.material import ListedImages, Material, Originals, StoredImages
from feddiv.data.images.listing import ImageListing
from feddiv.data.images.to_dataset import as_dataset, judge
from feddiv.data.statistics import statistics_of_parts
from feddiv.data.transform import Augment
from feddiv.data.watcher import DataWatcher
from feddiv.encoders.choice import EncoderChoice, Kind
from feddiv.encoders.contract import Encoder
from feddiv.encoders.registry import find_encoder, make_encoder

OF_IMAGES: Final = ("size", "mean", "std")  # options that mean something to encoders of images


def check_encoding(options: DataOptions, kind: Kind | None) -> EncoderChoice:
    """The encoder of these options, for samples of this kind; None are neither images nor texts."""
    choice = options.encoding
    assert choice is not None
    entry, name = find_encoder(choice.name), f"data.encoder={choice.name}"
    if kind is None:
        raise UserError(
            f"{name}: the samples of data.source={options.source} are numbers already; an encoder "
            "is for images and texts"
        )
    _check_kind(entry.kind, kind, options)
    if options.augment is not None and (options.augment.pad or options.augment.flip):
        raise UserError(
            f"data.augment: with {name} samples are feature vectors, which can be neither cropped "
            "nor flipped; data.encoder_views=2 has mirrored images"
        )
    if kind == "texts":
        if choice.views > 1:
            raise UserError(f"data.encoder_views={choice.views}: a text has one view only")
        for key in OF_IMAGES:
            if (value := getattr(choice, key)) is not None:
                raise UserError(f"data.encoder_{key}={value}: is for encoders of images")
    return choice


def _check_kind(encodes: Kind | None, kind: Kind, options: DataOptions) -> None:
    """None is an encoder whose file has to be read first."""
    if encodes not in (None, kind):
        raise UserError(
            f"data.encoder={options.encoder} encodes {encodes}; the samples of "
            f"data.source={options.source} are {kind}"
        )


def encoded(
    data: Dataset | ImageListing,
    options: DataOptions,
    watcher: DataWatcher,
    made: Encoder | None = None,
) -> Dataset:
    """The same data as feature vectors of the encoder that the options name, or that is `made`."""
    if not isinstance(data, ImageListing) and data.encoder is not None:
        return data  # of sites, whose server has said it already
    if isinstance(data, ImageListing):
        return _of_files(data, options, watcher, made)
    images = data.train.inputs.dim() == 4 and data.own is None
    kind: Kind | None = "texts" if data.only_texts else "images" if images else None
    choice = check_encoding(options, kind)
    shape = None
    if images:
        height, width, channels = data.train.inputs.shape[1:]
        shape = (height, width, channels)
    encoder = made or make_encoder(choice, None if shape is None else max(shape[:2]))
    assert kind is not None
    _check_kind(encoder.kind, kind, options)
    originals = data.originals or Originals(
        StoredImages.of(data.train.inputs, "training image"),
        StoredImages.of(data.test.inputs, "test image"),
    )
    store = FeatureStore(encoder)
    train, test = _features(store, originals, choice.views, watcher)
    learned, tested = _splits(store, train, data.train.labels, test, data.test.labels)
    mean, std = _statistics(learned)
    return replace(
        data,
        train=learned,
        test=tested,
        mean=mean,
        std=std,
        augment=Augment(),
        window=None,
        encoder=encoder.choice,
        image_shape=shape,
        originals=originals,
    )


def _of_files(
    listing: ImageListing, options: DataOptions, watcher: DataWatcher, made: Encoder | None
) -> Dataset:
    """Images in files are read in the size that the encoder wants, and kept nowhere."""
    choice = check_encoding(options, "images")
    encoder = made or make_encoder(choice, options.size)
    _check_kind(encoder.kind, "images", options)
    side, channels = options.size or encoder.choice.size, listing.channels
    assert side is not None
    originals = Originals(
        ListedImages(listing.train.images, side, channels),
        ListedImages(listing.test.images, side, channels),
    )
    store = FeatureStore(encoder)
    train, test = _features(store, originals, choice.views, watcher)
    for part, material in ((train, originals.train), (test, originals.test)):
        if part.unreadable and not len(part.kept):
            row, reason = next(iter(part.unreadable.items()))
            raise UserError(
                f"{material.name(row)}: {reason}; none of {len(material)} images can be read"
            )
    judge(listing, train.unreadable, test.unreadable, watcher)
    if train.unreadable:
        listing = listing.chosen(train.kept)
    if test.unreadable:
        listing = listing.chosen_test(test.kept)
    labels = torch.from_numpy(listing.train.labels), torch.from_numpy(listing.test.labels)
    learned, tested = _splits(store, train, labels[0], test, labels[1])
    mean, std = _statistics(learned)
    dataset = as_dataset(listing, train=learned, test=tested, mean=mean, std=std, augment=Augment())
    return replace(
        dataset,
        encoder=encoder.choice,
        image_shape=(side, side, channels),
        originals=originals.chosen(train.kept).chosen_test(test.kept),
    )


def _features(
    store: FeatureStore, originals: Originals, views: int, watcher: DataWatcher
) -> tuple[Features, Features]:
    """Where the vectors lie; what was never encoded is encoded now."""
    parts: dict[str, Material] = {
        "encoding training samples": originals.train,
        "encoding test samples": originals.test,
    }
    try:
        train, test = (
            features_of(store, material, views, watcher, what) for what, material in parts.items()
        )
    except OSError as error:
        raise UserError(f"{store.folder}: cannot be written ({error.strerror or error})") from None
    return train, test


def _splits(
    store: FeatureStore,
    train: Features,
    train_labels: torch.Tensor,
    test: Features,
    test_labels: torch.Tensor,
) -> tuple[Split, Split]:
    """Both look at one mapping."""
    vectors, pages = store.opened()
    for part in (train, test):  # somebody else's disk may have kept them for months
        store.check_finite(vectors, part.places)
    return (
        Split(vectors, train_labels, pages, torch.from_numpy(train.places)),
        Split(vectors, test_labels, pages, torch.from_numpy(test.places)),
    )


def _statistics(split: Split) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and std of each feature, of the samples as they are."""

    def part(start: int, stop: int) -> npt.NDArray[np.float32]:
        found: npt.NDArray[np.float32] = split.rows(slice(start, stop)).float().numpy()
        return found

    return statistics_of_parts(part, len(split))

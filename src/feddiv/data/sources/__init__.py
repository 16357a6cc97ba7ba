"""Where samples come from, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch
from pydantic import BaseModel

from feddiv.core.did_you_mean import did_you_mean
from feddiv.core.errors import UserError
from feddiv.core.randomness import Streams
from feddiv.data.classes import check_several
from feddiv.data.data_options import MOST_CLASSES, DataOptions
from feddiv.data.dataset import Dataset, Split
from feddiv.data.encoding.to_dataset import encoded
from feddiv.data.images.listing import ImageListing
from feddiv.data.images.to_dataset import as_dataset, assembled
from feddiv.data.sources import (
    cifar10,
    cifar100,
    clothing1m,
    digits,
    folder,
    huggingface,
    mnist,
    newsgroups,
    npz,
    python,
    sites,
    table,
)
from feddiv.data.transform import Augment
from feddiv.data.watcher import DataWatcher
from feddiv.encoders.contract import Encoder

Loaded = Dataset | ImageListing  # what a source gives


@dataclass(frozen=True)
class Source:
    """A kind of data by name; `load` gives all of it, before any choice of the run.

    Images in files come as a catalogue, so that only those that the run chooses are read. `takes`
    names the keys of `DataOptions` that the source reads itself. `own` is data of the user's, whose
    labels nobody wants to be made worse unasked.
    """

    name: str
    summary: str
    load: Callable[[DataOptions], Loaded]
    takes: frozenset[str] = frozenset({"path"})
    own: bool = False


NOTHING: Final[frozenset[str]] = frozenset()
# What `load_dataset` does for every source.
ENCODER: Final = frozenset(key for key in DataOptions.model_fields if key.startswith("encoder"))
COMMON: Final = ENCODER | {
    "source",
    "corrections",
    "augment",
    "images",
    "subset",
    "test_images",
    "draw",
    "standardise",
}

SOURCES: Final[dict[str, Source]] = {
    source.name: source
    for source in (
        Source(
            "digits", "1,797 hand-written digits, 8x8, built in, no download", digits.load, NOTHING
        ),
        Source("cifar10", "CIFAR-10, 60,000 images, 32x32, from its python files", cifar10.load),
        Source(
            "cifar100",
            "CIFAR-100, 60,000 images, 32x32, fine labels, from its python files",
            cifar100.load,
        ),
        Source(
            "mnist", "MNIST, 70,000 hand-written digits, 28x28, from IDX files", mnist.load_mnist
        ),
        Source(
            "fashion_mnist",
            "Fashion-MNIST, 70,000 clothes, 28x28, from IDX files",
            mnist.load_fashion_mnist,
        ),
        Source(
            "clothing1m",
            "Clothing1M in its official layout: a million web images, labels from their texts",
            clothing1m.load,
            clothing1m.TAKES,
        ),
        Source(
            "newsgroups",
            "20 Newsgroups, 18,821 postings, by date: texts, for data.encoder",
            newsgroups.load,
        ),
        Source(
            "folder",
            "your own images or texts: a folder for each class, or for each client and class",
            folder.load,
            folder.TAKES,
            own=True,
        ),
        Source(
            "table",
            "your own images, texts or feature vectors, listed in a CSV or Parquet file",
            table.load,
            table.TAKES,
            own=True,
        ),
        Source(
            "npz",
            "your own images or feature vectors in one .npz file",
            npz.load,
            frozenset({"path", "test_share"}),
            own=True,
        ),
        Source(
            "huggingface",
            "images or texts of a Hugging Face data set, saved to disk or by its id on the hub",
            huggingface.load,
            huggingface.TAKES,
            own=True,
        ),
        Source(
            "python",
            "your own data sets, arrays or data frames in Python: feddiv.run(..., clients=[...])",
            python.load,
            python.TAKES,
        ),
        Source(
            "sites",
            "data that stay at their sites, whose classes and shape the server knows (Flower)",
            sites.load,
            sites.TAKES,
        ),
    )
}


def find_source(name: str) -> Source:
    """The source of this name."""
    if name not in SOURCES:
        raise UserError(
            f"data.source={name} is unknown{did_you_mean(name, SOURCES)}; "
            f"allowed are {', '.join(SOURCES)}"
        )
    return SOURCES[name]


def load_dataset(
    options: DataOptions,
    seed_streams: Streams,
    watcher: DataWatcher | None = None,
    *,
    with_test: bool = True,
    brought: Loaded | None = None,
    made: Encoder | None = None,
    part: bool = False,
) -> Dataset:
    """The data set of a run: the source's data, its subset and its augmentation.

    Without test samples a source that has none of its own leaves everything to training. Data
    that were `brought` along are not loaded. `watcher` is told how data is made ready. `made` is
    the encoder of the options, where the caller has it already. `part` is for data whose classes
    somebody else has settled: they may all be of one.
    """
    source = find_source(options.source)
    _check_keys(options, source)
    if brought is not None:
        source = replace(source, load=lambda options: brought)
    if with_test:
        data = source.load(options)
        if not len(data.test):
            raise UserError(
                f"data.source={source.name}: there are no test samples; "
                "evaluation.name=held_out does without"
            )
    else:
        data = _without_test(options, source)
    if not part:
        check_several(data.classes, _where(options))
    if len(data.classes) > MOST_CLASSES:
        raise UserError(
            f"data.source={source.name}: {len(data.classes):,} classes, at most {MOST_CLASSES:,} "
            "can be told apart; are the labels labels?"
        )
    if isinstance(data, Dataset) and data.only_texts and options.encoder is None:
        raise UserError(
            f"data.source={source.name}: these are texts, of which a net needs feature vectors; "
            "set data.encoder=wordllama"
        )
    watcher = watcher or DataWatcher()
    for note in data.notes:
        watcher.note(note)
    _check_encoder(options)
    if options.augment is not None and options.encoder is None:
        _check_augment(options.augment, data.input_shape)
        data = replace(data, augment=options.augment)
    wanted = _wanted(len(data.train), options)
    if wanted is not None:
        data = data.chosen(_choose(len(data.train), wanted, "images", seed_streams))
    if options.test_images is not None:
        kept = _choose(len(data.test), options.test_images, "test_images", seed_streams)
        data = data.chosen_test(kept)
    if options.encoder is not None:
        dataset = encoded(data, options, watcher, made)
    else:
        dataset = assembled(data, watcher) if isinstance(data, ImageListing) else data
    _check_standardise(dataset, options)
    return dataset


def _where(options: DataOptions) -> str:
    """The key that says which data these are."""
    key = next((key for key in ("path", "hub") if getattr(options, key) is not None), "source")
    return f"data.{key}={getattr(options, key)}"


def listed_samples(options: DataOptions) -> Dataset:
    """All samples of a source by name, with their labels: images are not read, texts not encoded.

    Where samples are images or texts, inputs are [N, 0].
    """
    source = find_source(options.source)
    _check_keys(options, source)
    data = _without_test(options, source)
    if isinstance(data, Dataset):
        return data
    nothing = torch.empty((len(data.train), 0))
    return as_dataset(
        data,
        train=Split(nothing, torch.from_numpy(data.train.labels)),
        test=Split(nothing[:0], torch.empty(0, dtype=torch.int64)),
        mean=(),
        std=(),
        augment=Augment(),
    )


def _check_standardise(dataset: Dataset, options: DataOptions) -> None:
    """Refuse sums of clients where nothing could be standardised by them."""
    if options.standardise != "clients":
        return
    if len(dataset.input_shape) != 1 or dataset.own is not None:
        raise UserError(
            "data.standardise=clients: is for feature vectors, and a sample here has shape "
            f"{dataset.input_shape}" + ("" if dataset.own is None else " and is taken as it is")
        )
    for key in ("mean", "std"):
        if getattr(options, key) is not None:
            raise UserError(f"data.standardise=clients and data.{key} contradict each other")


def _without_test(options: DataOptions, source: Source) -> Loaded:
    for key in ("test_images", "test_share"):
        value = getattr(options, key)
        if value is not None:
            raise UserError(
                f"data.{key}={value}: evaluation.name=held_out looks at no test samples"
            )
    data = source.load(options.model_copy(update={"test_share": 0.0}))
    return data.chosen_test(torch.arange(0))


def _check_keys(options: DataOptions, source: Source) -> None:
    """A key that the source would not look at is a mistake."""
    allowed = source.takes | COMMON
    for key, value in _changed(options, DataOptions(), ""):
        if key not in allowed and key.partition(".")[0] not in allowed:
            keys = ", ".join(f"data.{name}" for name in sorted(source.takes)) or "none"
            raise UserError(
                f"data.{key}={value}: data.source={source.name} has no use for it; "
                f"keys of its own: {keys}"
            )


def _changed(options: BaseModel, unset: BaseModel, prefix: str) -> Iterator[tuple[str, object]]:
    """Keys that are not as they would be by default; those of a section by dotted names."""
    for key, value in options:
        default = getattr(unset, key)
        if isinstance(value, BaseModel) and isinstance(default, BaseModel):
            yield from _changed(value, default, f"{key}.")
        elif value != default:
            yield f"{prefix}{key}", value


def _check_encoder(options: DataOptions) -> None:
    """Options of an encoder mean nothing without one."""
    for key in sorted(ENCODER - {"encoder"}):
        value = getattr(options, key)
        if options.encoder is None and value != DataOptions.model_fields[key].default:
            raise UserError(f"data.{key}={value}: there is no data.encoder")


def _check_augment(augment: Augment, shape: tuple[int, ...]) -> None:
    if len(shape) == 1 and (augment.pad or augment.flip):
        raise UserError("data.augment: feature vectors can be neither cropped nor flipped")
    if len(shape) == 3 and augment.pad >= min(shape[1:]):
        raise UserError(
            f"data.augment.pad={augment.pad}: has to be smaller than the images, "
            f"{shape[1]}x{shape[2]}"
        )


def _wanted(samples: int, options: DataOptions) -> int | None:
    """How many training samples to keep, None for all."""
    if options.subset is None:
        return options.images
    if options.images is not None:
        raise UserError(
            f"data.subset={options.subset} and data.images={options.images} both say how many "
            "training samples to keep: give one"
        )
    return max(1, round(options.subset * samples))


def _choose(samples: int, wanted: int, key: str, streams: Streams) -> torch.Tensor:
    """A random choice of samples, in their old order."""
    if wanted > samples:
        raise UserError(f"data.{key}={wanted}: there are only {samples} samples")
    chosen = streams.numpy(key).choice(samples, size=wanted, replace=False)
    return torch.from_numpy(np.sort(chosen))

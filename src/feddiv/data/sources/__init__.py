"""Where samples come from, by name."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch

from feddiv.data.options import DataOptions
from feddiv.data.sources import cifar10, cifar100, digits, mnist, npz
from feddiv.data.store import Dataset
from feddiv.data.transform import Augment
from feddiv.errors import UserError
from feddiv.randomness import Streams


@dataclass(frozen=True)
class Source:
    """A kind of data by name; `load` gives all of it, before any choice of the run.

    `takes` names the keys of `DataOptions` that the source reads itself.
    """

    name: str
    summary: str
    load: Callable[[DataOptions], Dataset]
    takes: frozenset[str] = frozenset({"path"})


NOTHING: Final[frozenset[str]] = frozenset()
# What `load_dataset` does for every source.
COMMON: Final = frozenset({"source", "augment", "images", "test_images", "draw"})

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
        Source("npz", "your own images or feature vectors in one .npz file", npz.load),
    )
}


def load_dataset(options: DataOptions, seed_streams: Streams) -> Dataset:
    """The data set of a run: the source's data, its subset and its augmentation."""
    if options.source not in SOURCES:
        raise UserError(f"data.source={options.source}: allowed are {', '.join(SOURCES)}")
    source = SOURCES[options.source]
    _check_keys(options, source)
    dataset = source.load(options)
    if options.augment is not None:
        _check_augment(options.augment, dataset)
        dataset = replace(dataset, augment=options.augment)
    if options.images is not None:
        kept = _choose(len(dataset.train), options.images, "images", seed_streams)
        dataset = dataset.chosen(kept)
    if options.test_images is not None:
        kept = _choose(len(dataset.test), options.test_images, "test_images", seed_streams)
        dataset = replace(dataset, test=dataset.test.chosen(kept))
    return dataset


def _check_keys(options: DataOptions, source: Source) -> None:
    """A key that the source would not look at is a mistake."""
    for key, value in options:
        unset = type(options).model_fields[key].default
        if value != unset and key not in source.takes | COMMON:
            keys = ", ".join(f"data.{name}" for name in sorted(source.takes)) or "none"
            raise UserError(
                f"data.{key}={value}: data.source={source.name} has no use for it; "
                f"keys of its own: {keys}"
            )


def _check_augment(augment: Augment, dataset: Dataset) -> None:
    shape = dataset.input_shape
    if len(shape) == 1 and (augment.pad or augment.flip):
        raise UserError("data.augment: feature vectors can be neither cropped nor flipped")
    if len(shape) == 3 and augment.pad >= min(shape[1:]):
        raise UserError(
            f"data.augment.pad={augment.pad}: has to be smaller than the images, "
            f"{shape[1]}x{shape[2]}"
        )


def _choose(samples: int, wanted: int, key: str, streams: Streams) -> torch.Tensor:
    """A random choice of samples, in their old order."""
    if wanted > samples:
        raise UserError(f"data.{key}={wanted}: there are only {samples} samples")
    chosen = streams.numpy(key).choice(samples, size=wanted, replace=False)
    return torch.from_numpy(np.sort(chosen))

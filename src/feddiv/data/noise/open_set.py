"""Images of none of the classes, under labels of this data set."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from feddiv.core.arrays import Parts
from feddiv.core.errors import UserError
from feddiv.core.options import GivenPath
from feddiv.core.randomness import Streams
from feddiv.data.data_options import DataOptions
from feddiv.data.dataset import Dataset
from feddiv.data.noise.noise_options import Corruption, Foreign, LevelOptions, labels_of
from feddiv.data.sources import load_dataset
from feddiv.data.watcher import DataWatcher

MODES: Final = {1: "L", 3: "RGB"}  # by channels


class OpenSet(LevelOptions):
    """Images of another data set under this one's labels: none of the classes is right.

    `source` and `path` name the other data as `data.source` and `data.path` do; its training
    samples are shown, each once at most, fitted to the size and channels of this data.
    """

    name: Literal["open_set"] = "open_set"
    source: str = ""
    path: GivenPath | None = None

    def corrupt(
        self,
        dataset: Dataset,
        parts: Parts,
        rng: np.random.Generator,
        watcher: DataWatcher | None = None,
    ) -> Corruption:
        """Labels stay; each sample shows a foreign image with probability delta_k."""
        _check_in_memory(dataset)
        levels = self.client_levels(len(parts), rng)
        hits = [
            part[rng.random(len(part)) < level] for part, level in zip(parts, levels, strict=True)
        ]
        hit = np.concatenate([np.empty(0, np.int64), *hits])
        other = self._other(dataset, watcher)
        if len(hit) > len(other.train):
            raise UserError(
                f"noise.source={self.source}: {len(hit)} samples are to show a foreign image and "
                f"it has {len(other.train)}; use a larger set, a lower level or fewer data.images"
            )
        if not len(hit):
            return Corruption(labels_of(dataset), levels, self.kinds(levels))
        rows = np.full(len(dataset.train), -1, np.int64)
        rows[hit] = rng.choice(len(other.train), size=len(hit), replace=False)
        images = fitted_inputs(other, rows[rows >= 0], dataset)
        foreign = Foreign(other.name, rows, _fingerprint(images), images)
        return Corruption(labels_of(dataset), levels, self.kinds(levels), foreign)

    def shown(
        self, dataset: Dataset, foreign: Foreign | None, watcher: DataWatcher | None = None
    ) -> Dataset:
        """The data with the foreign images in their places, in memory of its own."""
        if foreign is None:
            return dataset
        _check_in_memory(dataset)
        images = foreign.images
        if images is None:  # a saved draw
            images = self._images(foreign, dataset, watcher)
        train = dataset.train.in_memory()
        where = torch.from_numpy(foreign.shown)
        if train.places is not None:
            train.inputs[train.places[where].flatten()] = images
        else:
            train.inputs[where] = images
        return replace(dataset, train=train, originals=None)

    def _images(
        self, foreign: Foreign, dataset: Dataset, watcher: DataWatcher | None
    ) -> torch.Tensor:
        """The foreign images of a saved draw, once they are found to be the same."""
        other = self._other(dataset, watcher)
        last = int(foreign.rows.max(initial=-1))
        if other.name != foreign.source or last >= len(other.train):
            raise UserError(
                f"draw: made with sample {last} of {foreign.source}, "
                f"noise.source={self.source} has {len(other.train)}"
            )
        images = fitted_inputs(other, foreign.rows[foreign.shown], dataset)
        if _fingerprint(images) != foreign.fingerprint:
            raise UserError(
                f"draw: made with other images of {foreign.source} than those that "
                f"noise.source={self.source} has now"
            )
        return images

    def _other(self, dataset: Dataset, watcher: DataWatcher | None) -> Dataset:
        if not self.source:
            raise UserError("noise.name=open_set: noise.source has to name the other data set")
        options = DataOptions(source=self.source, path=self.path).encoded_by(dataset.encoder)
        try:
            other = load_dataset(options, Streams(0), watcher, with_test=False)
        except UserError as error:
            # The same message, about the keys of this section.
            raise UserError(re.sub(r"\bdata\.(source|path)", r"noise.\1", str(error))) from None
        if other.name == dataset.name and _same(other, dataset):
            raise UserError(f"noise.source={self.source}: is the data set itself, not another one")
        return other


def _check_in_memory(dataset: Dataset) -> None:
    if dataset.train.pages is not None and dataset.encoder is None:
        raise UserError(
            f"noise.name=open_set: {dataset.name} is mapped from disk and may be larger than "
            "memory, its images can't be replaced; data.source=npz holds them in memory"
        )


def fitted_inputs(other: Dataset, rows: npt.NDArray[np.int64], dataset: Dataset) -> torch.Tensor:
    """These training samples of another data set as this one stores its own.

    Where both were made by one encoder, all views of each, one after the other.
    """
    theirs, ours = tuple(other.train.inputs.shape[1:]), tuple(dataset.train.inputs.shape[1:])
    index = torch.from_numpy(rows)
    if theirs == ours:
        places = other.train.places
        index = index if places is None else places[index].flatten()
        return other.train.inputs.index_select(0, index)
    if len(theirs) != 3 or len(ours) != 3 or not {theirs[2], ours[2]} <= MODES.keys():
        raise UserError(
            f"noise.source: samples of {other.name} are {_size(theirs)} and cannot be fitted to "
            f"those of {dataset.name}, {_size(ours)}; images with 1 or 3 channels can"
        )
    height, width, channels = ours
    result = np.empty((len(rows), *ours), np.uint8)
    for place, row in enumerate(index):
        pixels = other.train.inputs[row].numpy()
        image = Image.fromarray(pixels[..., 0] if theirs[2] == 1 else pixels)
        image = image.convert(MODES[channels])
        if image.size != (width, height):
            image = image.resize((width, height), Image.Resampling.BILINEAR)
        result[place] = np.asarray(image, np.uint8).reshape(ours)
    return torch.from_numpy(result)


def _size(shape: tuple[int, ...]) -> str:
    if len(shape) != 3:
        return f"vectors of {shape[0]} numbers"
    return f"images of {shape[0]}x{shape[1]} with {shape[2]} channels"


def _same(other: Dataset, dataset: Dataset) -> bool:
    """Whether `dataset` holds samples of `other`, all or some."""
    rows = dataset.origin
    if other.input_shape != dataset.input_shape or int(rows.max()) >= len(other.train):
        return False
    return torch.equal(other.train.labels[rows], dataset.train.labels)


def _fingerprint(inputs: torch.Tensor) -> str:
    return hashlib.sha256(inputs.contiguous().numpy().tobytes()).hexdigest()

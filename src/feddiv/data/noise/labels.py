"""Noise that looks at the label alone."""

from collections.abc import Mapping
from typing import Final, Literal

import numpy as np
from pydantic import Field, field_validator

from feddiv.core.arrays import Labels, Parts
from feddiv.core.errors import UserError
from feddiv.data.dataset import Dataset
from feddiv.data.noise.noise_options import Corruption, LevelOptions, NoiseOptions, labels_of
from feddiv.data.watcher import DataWatcher

# Classes of CIFAR-10 that people mix up (Patrini et al., CVPR 2017).
CIFAR10: Final = {
    "truck": "automobile",
    "bird": "airplane",
    "deer": "horse",
    "cat": "dog",
    "dog": "cat",
}


class NoNoise(NoiseOptions):
    """Labels stay as the source gives them."""

    name: Literal["none"] = "none"

    @property
    def injects(self) -> bool:
        """Never."""
        return False

    def corrupt(
        self,
        dataset: Dataset,
        parts: Parts,
        rng: np.random.Generator,
        watcher: DataWatcher | None = None,
    ) -> Corruption:
        """A copy of the labels, level 0 everywhere."""
        return Corruption(labels_of(dataset), np.zeros(len(parts)), ("none",) * len(parts))


class Symmetric(LevelOptions):
    """Labels are replaced by uniform draws from all classes.

    `classes="first_ten"` draws only from classes 0-9 whatever their number: what the released
    code of FedDiv and FedCorr does, needed to compare with published CIFAR-100 numbers.
    """

    name: Literal["symmetric"] = "symmetric"
    classes: Literal["all", "first_ten"] = "all"  # that wrong labels are drawn from

    def corrupt(
        self,
        dataset: Dataset,
        parts: Parts,
        rng: np.random.Generator,
        watcher: DataWatcher | None = None,
    ) -> Corruption:
        """Each sample is corrupted on its own.

        A corrupted label may draw its own class again, so the share of wrong labels is about
        delta_k (1 - 1/C).
        """
        levels = self.client_levels(len(parts), rng)
        classes = len(dataset.classes)
        drawn_from = min(10, classes) if self.classes == "first_ten" else classes
        given = labels_of(dataset)
        for part, level in zip(parts, levels, strict=True):
            hit = part[rng.random(len(part)) < level]
            given[hit] = rng.integers(0, drawn_from, size=len(hit))
        return Corruption(given, levels, self.kinds(levels))


class Pair(LevelOptions):
    """Labels turn into one other class: the next one, or that of a map.

    `map` is "next" (class c becomes c+1, the last one the first), "cifar10" (truck to automobile,
    bird to airplane, deer to horse, cat to dog and back) or a table of class names. Classes that a
    map does not name are never wrong.
    """

    name: Literal["pair"] = "pair"
    map: Literal["next", "cifar10"] | dict[str, str] = Field(default="next")

    @field_validator("map", mode="before")
    @classmethod
    def _known_map(cls, value: object) -> object:
        names = isinstance(value, Mapping) and all(isinstance(v, str) for v in value.values())
        if not names and value not in ("next", "cifar10"):
            raise ValueError("allowed are next, cifar10 and a table of class names, {cat='dog'}")
        return value

    def corrupt(
        self,
        dataset: Dataset,
        parts: Parts,
        rng: np.random.Generator,
        watcher: DataWatcher | None = None,
    ) -> Corruption:
        """Each sample of a class that can turn does so on its own, with probability delta_k."""
        turned = self.turned(dataset.classes)
        levels = self.client_levels(len(parts), rng)
        given = labels_of(dataset)
        for part, level in zip(parts, levels, strict=True):
            hit = part[rng.random(len(part)) < level]
            given[hit] = turned[given[hit]]
        return Corruption(given, levels, self.kinds(levels))

    def turned(self, classes: tuple[str, ...]) -> Labels:
        """What each class [C] turns into."""
        numbers = np.arange(len(classes))
        if self.map == "next":
            return np.roll(numbers, -1)
        for old, new in (CIFAR10 if self.map == "cifar10" else self.map).items():
            for name in (old, new):
                if name not in classes:
                    known = ", ".join(classes[:20]) + (", …" if len(classes) > 20 else "")
                    raise UserError(f"noise.map: {name!r} is no class of this data; it has {known}")
            if old == new:
                raise UserError(f"noise.map: {old!r} would stay what it is")
            numbers[classes.index(old)] = classes.index(new)
        return numbers

"""Labels that people gave: CIFAR-10N and CIFAR-100N."""

from typing import Literal

import numpy as np

from feddiv.core.arrays import Labels, Parts
from feddiv.core.errors import UserError
from feddiv.core.options import GivenPath
from feddiv.data.dataset import Dataset
from feddiv.data.noise.noise_options import Corruption, NoiseOptions, labels_of
from feddiv.data.published.cifar_n import KEYS, read_human_labels
from feddiv.data.watcher import DataWatcher


class Human(NoiseOptions):
    """Labels that people gave CIFAR's images: CIFAR-10N and CIFAR-100N (Wei et al. 2022).

    `labels` is the set to take: aggre, random1, random2, random3 or worse for CIFAR-10, noisy for
    CIFAR-100. `path` is the folder that holds cifar-n, else FEDDIV_DATA is searched.
    """

    name: Literal["human"] = "human"
    labels: Literal["aggre", "random1", "random2", "random3", "worse", "noisy"] | None = None
    path: GivenPath | None = None

    @property
    def injects(self) -> bool:
        """The data set's own labels are the truth."""
        return True

    def corrupt(
        self,
        dataset: Dataset,
        parts: Parts,
        rng: np.random.Generator,
        watcher: DataWatcher | None = None,
    ) -> Corruption:
        """The people's labels; a client's level is the share of wrong ones among its own."""
        theirs = self.aligned(dataset)
        labels = labels_of(dataset)
        given = labels.copy()
        for part in parts:
            given[part] = theirs[part]
        levels = np.array([np.mean(given[part] != labels[part]) for part in parts])
        return Corruption(given, levels, ("human",) * len(parts))

    def aligned(self, dataset: Dataset) -> Labels:
        """The people's label of each training sample [N], once the order is found to be right."""
        which = self._which(dataset.name)
        clean, theirs = read_human_labels(self.path, dataset.name, which)
        rows = dataset.origin.numpy()
        if rows.max() >= len(clean) or (dataset.rows is None and len(rows) != len(clean)):
            raise UserError(
                f"noise.name=human: labels for {len(clean)} training images, "
                f"{dataset.name} has {max(int(rows.max()) + 1, len(rows))}"
            )
        differ = int((clean[rows] != labels_of(dataset)).sum())
        if differ:
            raise UserError(
                f"noise.name=human: the file's clean labels differ from those of {dataset.name} "
                f"for {differ} of {len(rows)} images: another order, or another data set"
            )
        given: Labels = theirs[rows]
        outside = given[(given < 0) | (given >= len(dataset.classes))]
        if len(outside):
            raise UserError(
                f"noise.name=human: label {outside[0]} is not in 0..{len(dataset.classes) - 1}"
            )
        return given

    def _which(self, dataset: str) -> str:
        if dataset not in KEYS:
            raise UserError(
                f"noise.name=human: there are no human labels for {dataset}; "
                f"data.source can be {' or '.join(KEYS)}"
            )
        known = list(KEYS[dataset])
        if self.labels is None and len(known) == 1:
            return known[0]
        if self.labels not in known:
            given = "not set" if self.labels is None else f"={self.labels}"
            raise UserError(f"noise.labels {given}: {dataset} has {', '.join(known)}")
        return self.labels

"""What the python files of CIFAR-10 and CIFAR-100 have in common."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from feddiv.core.errors import UserError
from feddiv.data.data_options import DataOptions
from feddiv.data.dataset import Dataset, Split
from feddiv.data.published.benchmarks import Benchmark
from feddiv.data.published.pickles import read_pickle
from feddiv.data.published.places import find
from feddiv.data.transform import Augment


@dataclass(frozen=True)
class Cifar:
    """Which files hold what, and what to normalise the images with."""

    benchmark: Benchmark
    meta: str
    names: str  # key of the class names in `meta`
    train: tuple[str, ...]
    test: str
    labels: str  # key of the labels in the others
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def load(self, options: DataOptions) -> Dataset:
        """All images of 32x32 pixels, every file's checksum verified."""
        folder = find(self.benchmark, options.path)
        for piece in self.benchmark.pieces:
            if not (folder / piece.name).is_file():
                url = self.benchmark.downloads[0].urls[0]
                raise UserError(f"{folder / piece.name}: missing; unpack {url} again")
        names = self._read(folder, self.meta)[self.names]
        train, test = self._split(folder, self.train), self._split(folder, (self.test,))
        return Dataset(
            name=self.benchmark.name,
            classes=tuple(names),
            train=train,
            test=test,
            mean=self.mean,
            std=self.std,
            augment=Augment(pad=4, flip=True),
            truth=train.labels,
        )

    def _read(self, folder: Path, name: str) -> dict[str, Any]:
        content: dict[str, Any] = read_pickle(
            folder / name, "latin1", self.benchmark.piece(name).md5
        )
        return content

    def _split(self, folder: Path, names: tuple[str, ...]) -> Split:
        batches = [self._read(folder, name) for name in names]
        planes = np.concatenate([batch["data"] for batch in batches]).reshape(-1, 3, 32, 32)
        images = np.ascontiguousarray(planes.transpose(0, 2, 3, 1))
        labels = np.concatenate([batch[self.labels] for batch in batches]).astype(np.int64)
        return Split(torch.from_numpy(images), torch.from_numpy(labels))

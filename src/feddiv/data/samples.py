"""One client's view of the shared tensors."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from feddiv.data.dataset import Dataset
from feddiv.data.draw.draw import Draw
from feddiv.data.transform import Transform

MOST_AT_ONCE: Final = 1 << 24  # numbers of a client's vectors that are kept normalised: 64 MB


@dataclass(frozen=True, eq=False)
class Samples:
    """The samples of one client: an index array, never a copy of the data.

    `inputs` is the whole shared tensor, on `device` or, where it is mapped from a file, in main
    memory; `index`, `given` and `truth` are int64 [n], the labels always in main memory. Where
    samples have several views in `inputs`, `index` is [n,V]: training draws among them, and
    everything else looks at the first. Rows are positions 0..n-1 in the client, not indices into
    the data set.
    """

    inputs: torch.Tensor
    index: torch.Tensor
    given: torch.Tensor
    truth: torch.Tensor | None
    transform: Transform
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    def __len__(self) -> int:
        return len(self.index)

    @property
    def views(self) -> int:
        """How many views of each sample there are."""
        return self.index.shape[1] if self.index.dim() == 2 else 1

    def plain(self, rows: torch.Tensor | slice) -> torch.Tensor:
        """Normalised inputs of these rows, in memory of their own."""
        if self._vectors is None:
            return self.transform.plain(self.stored(rows))
        if isinstance(rows, slice):
            return self._vectors[:: self.views][rows].clone()
        return self._vectors.index_select(0, rows.to(self._vectors.device) * self.views)

    def augmented(self, rows: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Randomly augmented, normalised inputs of these rows."""
        view = None
        if self.views > 1:
            view = torch.randint(self.views, (len(rows),), generator=generator)
        if self._vectors is None or self.transform.draws_for(self.inputs):
            return self.transform.augmented(self.stored(rows, view), generator)
        if view is None:
            return self.plain(rows)
        places = rows.to(view.device) * self.views + view
        return self._vectors.index_select(0, places.to(self._vectors.device))

    @cached_property
    def _vectors(self) -> torch.Tensor | None:
        """All vectors as a net eats them, made once: every epoch and every pass uses them again.

        A sample's views stand one after the other.
        """
        if self.inputs.dim() != 2 or self.index.numel() * self.inputs.shape[1] > MOST_AT_ONCE:
            return None
        stored = self.inputs.index_select(0, self.index.flatten()).to(self.device)
        return self.transform.plain(stored)

    def stored(self, rows: torch.Tensor | slice, view: torch.Tensor | None = None) -> torch.Tensor:
        """These rows as the source has them, of several views the first or those named [n]."""
        index = self.index[rows]
        if view is not None:
            index = index.gather(1, view.to(index.device)[:, None])
        if index.dim() == 2:
            index = index[:, 0]
        return self.inputs.index_select(0, index).to(self.device)

    @property
    def none(self) -> Samples:
        """No sample of the same data."""
        truth = None if self.truth is None else self.truth[:0]
        return replace(self, index=self.index[:0], given=self.given[:0], truth=truth)

    def followed_by(self, other: Samples) -> Samples:
        """These and then the other ones, of the same client."""
        truths = [each.truth for each in (self, other) if each.truth is not None]
        return replace(
            self,
            index=torch.cat([self.index, other.index]),
            given=torch.cat([self.given, other.given]),
            truth=torch.cat(truths) if self.truth is not None else None,
        )


def client_samples(dataset: Dataset, draw: Draw, client: int) -> Samples:
    """What this client trains on under this draw."""
    return _samples(dataset, draw, draw.parts[client])


def held_out_samples(dataset: Dataset, draw: Draw, client: int) -> Samples:
    """What this client keeps out of training under this draw; perhaps nothing."""
    nothing = np.empty(0, dtype=np.int64)
    return _samples(dataset, draw, nothing if draw.held_out is None else draw.held_out[client])


def samples_to_test(dataset: Dataset) -> Samples:
    """All test samples, under the labels that they have."""
    inputs, labels, places = dataset.test.inputs, dataset.test.labels, dataset.test.places
    return Samples(
        inputs=inputs,
        index=torch.arange(len(labels), device=inputs.device) if places is None else places,
        given=labels.cpu(),
        truth=None,
        transform=dataset.transform,
        device=labels.device,
    )


def _samples(dataset: Dataset, draw: Draw, part: npt.NDArray[np.int64]) -> Samples:
    inputs, places = dataset.train.inputs, dataset.train.places
    index = torch.tensor(part, dtype=torch.int64, device=inputs.device)
    return Samples(
        inputs=inputs,
        index=index if places is None else places[index],
        given=torch.tensor(draw.given[part], dtype=torch.int64),
        truth=None if draw.truth is None else torch.tensor(draw.truth[part], dtype=torch.int64),
        transform=dataset.transform,
        device=dataset.train.labels.device,
    )

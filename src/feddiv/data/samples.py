"""One client's view of the shared tensors."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from feddiv.core.arrays import Array, Labels, Mask
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
    the data set. `trusted`, bool [n], says which given labels an expert has confirmed or corrected:
    no method may leave such a sample out or give it another label. None where there are none.
    """

    inputs: torch.Tensor
    index: torch.Tensor
    given: torch.Tensor
    truth: torch.Tensor | None
    transform: Transform
    trusted: torch.Tensor | None = None
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

    def believed(self, p_clean: Array) -> Array:
        """p(clean) [n]; it is 1 for labels that an expert vouches for."""
        return p_clean if self.trusted is None else np.where(self.trusted.numpy(), 1.0, p_clean)

    def doubted(self, flagged: Mask) -> Mask:
        """Which labels [n] a method holds to be wrong, but for those that an expert vouches for."""
        return flagged if self.trusted is None else flagged & ~self.trusted.numpy()

    def kept(self, labels: Labels) -> Labels:
        """Labels [n] as a method has changed them, but for those that an expert vouches for."""
        if self.trusted is None:
            return labels
        return np.where(self.trusted.numpy(), self.given.numpy(), labels)

    def honoured(
        self, rows: torch.Tensor, labels: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """A selection of rows and their labels, numbers [m] or shares [m, C], to be trained on.

        Samples that an expert vouches for are in it, under the labels that the expert gave.
        """
        if self.trusted is None:
            return rows, labels
        absent = self.trusted.clone()
        absent[rows] = False
        more = torch.nonzero(absent).flatten()
        rows, labels = (
            torch.cat([rows, more]),
            torch.cat([labels, labels.new_zeros((len(more), *labels.shape[1:]))]),
        )
        given = self.given[rows]
        if labels.dim() == 2:
            given = torch.nn.functional.one_hot(given, labels.shape[1])
        chosen = self.trusted[rows].view(-1, *[1] * (labels.dim() - 1))
        return rows, torch.where(chosen, given.to(labels), labels)

    @property
    def none(self) -> Samples:
        """No sample of the same data."""
        truth = None if self.truth is None else self.truth[:0]
        trusted = None if self.trusted is None else self.trusted[:0]
        return replace(
            self, index=self.index[:0], given=self.given[:0], truth=truth, trusted=trusted
        )

    def followed_by(self, other: Samples) -> Samples:
        """These and then the other ones, of the same client."""
        truths = [each.truth for each in (self, other) if each.truth is not None]
        trusted = [each.trusted for each in (self, other) if each.trusted is not None]
        return replace(
            self,
            index=torch.cat([self.index, other.index]),
            given=torch.cat([self.given, other.given]),
            truth=torch.cat(truths) if self.truth is not None else None,
            trusted=torch.cat(trusted) if self.trusted is not None else None,
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
        trusted=None if draw.trusted is None else torch.from_numpy(draw.trusted[part]),
        device=dataset.train.labels.device,
    )

"""The data set as tensors in memory: every sample once, whoever holds it."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from feddiv.data.transform import Augment, Transform


@dataclass(frozen=True, eq=False)
class Split:
    """Samples and their labels.

    Images stay uint8 [N,H,W,C]: a gathered batch, permuted to NCHW, already is channels_last.
    Feature vectors are float32 [N,D]. Labels are int64 [N].
    """

    inputs: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def on(self, device: torch.device) -> "Split":
        """The same samples on this device."""
        return Split(self.inputs.to(device), self.labels.to(device))

    def chosen(self, rows: Tensor) -> "Split":
        """These samples only."""
        return Split(self.inputs[rows], self.labels[rows])


@dataclass(frozen=True, eq=False)
class Dataset:
    """What a source gives: training and test samples, and how to normalise and augment them.

    `train.labels` are the labels as the source gives them; `truth` holds the true labels of the
    training samples, or None where nobody knows them. Where the data itself says which client a
    training sample belongs to, `clients` has their names and `holder` the number of each sample's,
    int64 [N]. `rows` says which of the source's training samples these are, int64 [N], or None for
    all of them in its order.
    """

    name: str
    classes: tuple[str, ...]
    train: Split
    test: Split
    mean: tuple[float, ...]
    std: tuple[float, ...]
    augment: Augment
    truth: Tensor | None
    clients: tuple[str, ...] = ()
    holder: Tensor | None = None
    rows: Tensor | None = None

    @property
    def origin(self) -> Tensor:
        """The number that each training sample has in the source, int64 [N]."""
        return torch.arange(len(self.train)) if self.rows is None else self.rows

    @property
    def input_shape(self) -> tuple[int, ...]:
        """One sample as a net sees it: (C,H,W) for images, (D,) for feature vectors."""
        shape = tuple(self.train.inputs.shape[1:])
        return (shape[2], shape[0], shape[1]) if len(shape) == 3 else shape

    @property
    def transform(self) -> Transform:
        """From stored rows of this data set to the input of a net."""
        return Transform(self.mean, self.std, self.augment)

    def on(self, device: torch.device) -> "Dataset":
        """The same data with its tensors on this device."""
        return replace(self, train=self.train.on(device), test=self.test.on(device))

    def chosen(self, rows: Tensor) -> "Dataset":
        """The same data with these training samples only."""
        return replace(
            self,
            train=self.train.chosen(rows),
            truth=None if self.truth is None else self.truth[rows],
            holder=None if self.holder is None else self.holder[rows],
            rows=self.origin[rows],
        )

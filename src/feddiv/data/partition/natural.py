"""Clients as the data has them."""

from abc import abstractmethod
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from feddiv.core.arrays import Rows
from feddiv.core.errors import UserError
from feddiv.core.options import GivenPath
from feddiv.data.dataset import Dataset
from feddiv.data.partition.partition_options import Partition, PartitionOptions
from feddiv.data.published.cifar_n import read_annotators


class NaturalOptions(PartitionOptions):
    """Somebody knows whose a sample is."""

    iid: ClassVar[bool] = False
    natural: ClassVar[bool] = True
    min_size: int = Field(
        default=2, ge=1, le=1_000_000_000
    )  # samples that every client has at least
    small: Literal["refuse", "drop"] = "refuse"  # what is done about smaller clients

    def split(self, dataset: Dataset, clients: int | None, rng: np.random.Generator) -> Partition:
        """Nothing is drawn; a client with fewer than `min_size` samples is refused or left out."""
        holder, names = self.holders(dataset)
        sizes = np.bincount(holder[holder >= 0], minlength=len(names))
        small = np.flatnonzero(sizes < self.min_size)
        if len(small) and self.small == "refuse":
            least = int(small[np.argmin(sizes[small])])
            raise UserError(
                f"partition.name={self.name}: {len(small)} of {len(names)} clients have fewer than "
                f"min_size={self.min_size} samples ({names[least]!r} has {sizes[least]}); "
                "set partition.small=drop to leave them out, or a smaller min_size"
            )
        kept = np.flatnonzero(sizes >= self.min_size)
        if not len(kept):
            raise UserError(
                f"partition.name={self.name}: none of {len(names)} clients has at least "
                f"min_size={self.min_size} samples, the largest has {sizes.max(initial=0)}"
            )
        if clients is not None and clients != len(kept):
            # Clients that a caller brings along cannot be dealt anew.
            anew = "" if dataset.name == "python" else ", or deal anew with partition.name=iid"
            raise UserError(
                f"clients.count={clients}: {dataset.name} has {len(kept)} clients with at least "
                f"partition.min_size={self.min_size} samples; leave clients.count out or set it "
                f"to {len(kept)}{anew}"
            )
        return Partition(
            tuple(np.flatnonzero(holder == client).astype(np.int64) for client in kept),
            tuple(names[client] for client in kept),
        )

    @abstractmethod
    def holders(self, dataset: Dataset) -> tuple[Rows, tuple[str, ...]]:
        """The client of each sample [N], negative for nobody, and the clients' names."""


class Natural(NaturalOptions):
    """The clients that the data itself names: a client level of folders, a client column."""

    name: Literal["natural"] = "natural"

    def holders(self, dataset: Dataset) -> tuple[Rows, tuple[str, ...]]:
        """What the source says."""
        if dataset.holder is None:
            raise UserError(
                f"partition.name=natural: {dataset.name} does not say which client a sample "
                "belongs to; use a partition that deals samples, such as iid"
            )
        return dataset.holder.cpu().numpy().astype(np.int64), dataset.clients


class Annotator(NaturalOptions):
    """CIFAR-100N by who labelled what: 98 people with at least 100 images each.

    `path` is the folder that holds side_info_cifar100N.csv, else FEDDIV_DATA is searched.
    """

    name: Literal["annotator"] = "annotator"
    min_size: int = Field(default=100, ge=1, le=1_000_000_000)
    small: Literal["refuse", "drop"] = "drop"
    path: GivenPath | None = None

    def holders(self, dataset: Dataset) -> tuple[Rows, tuple[str, ...]]:
        """The annotator of each sample, in the order of the training images."""
        if dataset.name != "cifar100":
            raise UserError(
                f"partition.name=annotator: {dataset.name} has no known annotators; "
                "it is for data.source=cifar100 (CIFAR-100N)"
            )
        workers = read_annotators(self.path)
        rows = dataset.origin
        if int(rows.max()) >= len(workers):
            raise UserError(
                f"partition.name=annotator: {len(workers)} images have annotators, "
                f"sample {int(rows.max())} of {dataset.name} has none"
            )
        people, holder = np.unique(workers, return_inverse=True)
        names = tuple(f"annotator {person}" for person in people)
        return holder.astype(np.int64)[rows.numpy()], names

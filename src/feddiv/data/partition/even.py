"""Clients whose labels differ by chance alone."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from feddiv.core.arrays import Rows
from feddiv.core.errors import UserError
from feddiv.data.partition.partition_options import DealtOptions, Partition, check_enough


class Iid(DealtOptions):
    """Every client gets the same number of samples, drawn at random from all."""

    iid: ClassVar[bool] = True
    name: Literal["iid"] = "iid"

    def deal(self, labels: Rows, clients: int, rng: np.random.Generator) -> Partition:
        """Random and not stratified, as the benchmark's code does it; floor(N/K) each."""
        check_enough(len(labels), clients, 1)
        size = len(labels) // clients
        return Partition.rows(rng.permutation(len(labels))[: size * clients].reshape(clients, size))


class IidStratified(DealtOptions):
    """Every client gets the same number of samples of every class."""

    iid: ClassVar[bool] = True
    name: Literal["iid_stratified"] = "iid_stratified"

    def deal(self, labels: Rows, clients: int, rng: np.random.Generator) -> Partition:
        """floor(N_c/K) of each class c, as the papers describe IID."""
        check_enough(len(labels), clients, 1)
        shares = []
        for label in np.unique(labels):
            members = np.flatnonzero(labels == label)
            size = len(members) // clients
            if size == 0:
                raise UserError(
                    f"partition.name=iid_stratified: class {label} has {len(members)} samples, "
                    f"too few for {clients} clients; use at most {len(members)} clients or iid"
                )
            shares.append(rng.permutation(members)[: size * clients].reshape(clients, size))
        return Partition.rows(np.concatenate(shares, axis=1))


class Quantity(DealtOptions):
    """Sizes follow a power law, labels are IID: the n-th largest client has about n^-exponent."""

    iid: ClassVar[bool] = True
    name: Literal["quantity"] = "quantity"
    exponent: float = Field(default=1.0, ge=0, le=10)  # 0: all clients have equally many
    min_size: int = Field(
        default=2, ge=1, le=1_000_000_000
    )  # samples that every client has at least

    def deal(self, labels: Rows, clients: int, rng: np.random.Generator) -> Partition:
        """Every sample is dealt; chance decides which client is the largest."""
        check_enough(len(labels), clients, self.min_size)
        sizes = self.sizes(len(labels), clients)
        if sizes[-1] < self.min_size:
            raise UserError(
                f"partition.name=quantity: exponent={self.exponent} leaves the smallest of "
                f"{clients} clients {sizes[-1]} of {len(labels)} samples, fewer than "
                f"min_size={self.min_size}; use fewer clients or a smaller exponent or min_size"
            )
        ends = np.cumsum(rng.permutation(sizes))[:-1]
        return Partition.rows(np.split(rng.permutation(len(labels)), ends))

    def sizes(self, samples: int, clients: int) -> Rows:
        """Whole numbers that add up to all samples, largest first."""
        weights = np.arange(1, clients + 1, dtype=np.float64) ** -self.exponent
        exact = samples * weights / weights.sum()
        sizes = np.floor(exact).astype(np.int64)
        # What rounding down left over goes to the largest remainders.
        order = np.argsort(sizes - exact, kind="stable")
        sizes[order[: samples - int(sizes.sum())]] += 1
        return np.sort(sizes)[::-1]

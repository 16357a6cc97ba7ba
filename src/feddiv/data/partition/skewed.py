"""Clients that hold different classes."""

from abc import abstractmethod
from typing import ClassVar, Final, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from feddiv.core.arrays import Rows
from feddiv.core.errors import UserError
from feddiv.data.partition.partition_options import DealtOptions, Partition, check_enough

TRIES: Final = 1000


class _DirichletShares(DealtOptions):
    """The owners of a class share it in Dirichlet(alpha) proportions."""

    iid: ClassVar[bool] = False
    alpha: float = Field(default=10.0, gt=0)  # the smaller, the less equal are the owners' shares
    min_size: int = Field(
        default=2, ge=1, le=1_000_000_000
    )  # samples that every client has at least

    @abstractmethod
    def owners(self, clients: int, classes: int, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
        """Who can hold what (client x class), without an empty row or column."""

    def deal(self, labels: Rows, clients: int, rng: np.random.Generator) -> Partition:
        """Redrawn as a whole until every client has `min_size` samples."""
        check_enough(len(labels), clients, self.min_size)
        best = 0
        for _ in range(TRIES):
            holder = self._holder(labels, clients, rng)
            smallest = int(np.bincount(holder, minlength=clients).min())
            if smallest >= self.min_size:
                return Partition.of(holder, clients)
            best = max(best, smallest)
        own = self.model_dump(exclude={"name", "min_size"})
        settings = ", ".join(f"{key}={value}" for key, value in own.items())
        raise UserError(
            f"partition.name={self.name}: {settings} left a client "
            f"with fewer than min_size={self.min_size} samples in all of {TRIES} draws ({clients} "
            f"clients, {len(labels)} samples, best smallest client {best}); "
            f"use fewer clients, a larger {' or '.join(own)}, or a smaller min_size"
        )

    def _holder(self, labels: Rows, clients: int, rng: np.random.Generator) -> Rows:
        """The holder of every sample."""
        present = np.unique(labels)
        owns = self.owners(clients, len(present), rng)
        holder = np.empty(len(labels), dtype=np.int64)
        for column, label in enumerate(present):
            owners = np.flatnonzero(owns[:, column])
            share = rng.dirichlet(np.full(len(owners), self.alpha))  # q_c
            if not np.isclose(share.sum(), 1.0):
                raise UserError(
                    f"partition.alpha={self.alpha}: too extreme for Dirichlet shares; "
                    "use a value between 0.001 and 1000000"
                )
            members = np.flatnonzero(labels == label)
            # Each sample on its own, so client sizes are multinomial, not exact proportions.
            holder[members] = rng.choice(owners, size=len(members), p=share)
        return holder


class BernoulliDirichlet(_DirichletShares):
    """Clients own each class with probability p and share it in Dirichlet(alpha) proportions."""

    name: Literal["bernoulli_dirichlet"] = "bernoulli_dirichlet"
    p: float = Field(default=0.7, gt=0, le=1)  # probability that a client owns a class

    def owners(self, clients: int, classes: int, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
        """The Bernoulli matrix of the benchmark's Non-IID(p, alpha).

        Redrawing an empty row or column only adds owners, so each repair keeps the other's.
        """
        owns = rng.random((clients, classes)) < self.p
        for matrix in (owns, owns.T):
            for _ in range(TRIES):
                empty = ~matrix.any(axis=1)
                if not empty.any():
                    break
                matrix[empty] = rng.random((int(empty.sum()), matrix.shape[1])) < self.p
            else:
                raise UserError(
                    f"partition.p={self.p}: too small for {clients} clients and {classes} classes, "
                    f"in {TRIES} draws a client owned no class or a class had no owner"
                )
        return owns


class Dirichlet(_DirichletShares):
    """All clients share each class in Dirichlet(alpha) proportions; a small alpha is unequal."""

    name: Literal["dirichlet"] = "dirichlet"
    alpha: float = Field(default=0.5, gt=0)

    def owners(self, clients: int, classes: int, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
        """Everybody can hold everything."""
        return np.ones((clients, classes), np.bool_)


class Shards(DealtOptions):
    """Samples sorted by label are cut into equal shards, a few for each client."""

    iid: ClassVar[bool] = False
    name: Literal["shards"] = "shards"
    per_client: int = Field(default=2, ge=1, le=1_000_000)  # shards
    min_size: int = Field(
        default=2, ge=1, le=1_000_000_000
    )  # samples that every client has at least

    def deal(self, labels: Rows, clients: int, rng: np.random.Generator) -> Partition:
        """As in McMahan et al. (AISTATS 2017); every sample is dealt, shards differ by one at most.

        Chance decides which samples of a class share a shard.
        """
        check_enough(len(labels), clients, max(self.min_size, self.per_client))
        mixed = rng.permutation(len(labels))
        by_label = mixed[np.argsort(labels[mixed], kind="stable")]
        shards = np.array_split(by_label, clients * self.per_client)
        dealt = rng.permutation(len(shards)).reshape(clients, self.per_client)
        parts = Partition.rows(np.concatenate([shards[n] for n in numbers]) for numbers in dealt)
        smallest = min(len(part) for part in parts.samples)
        if smallest < self.min_size:
            raise UserError(
                f"partition.name=shards: {clients} clients of {self.per_client} shards leave one "
                f"with {smallest} of {len(labels)} samples, fewer than min_size={self.min_size}"
            )
        return parts

"""Who holds which training samples."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Final, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from feddiv.errors import UserError
from feddiv.options import Options

Indices = npt.NDArray[np.int64]

TRIES: Final = 1000


class PartitionOptions(Options, ABC):
    """A rule that deals the training samples to clients."""

    iid: ClassVar[bool]
    name: str

    @abstractmethod
    def split(
        self, labels: npt.NDArray[np.int64], clients: int, rng: np.random.Generator
    ) -> list[Indices]:
        """One sorted array of sample indices per client; no sample twice."""


class Iid(PartitionOptions):
    """Every client gets the same number of samples, drawn at random from all."""

    iid: ClassVar[bool] = True
    name: Literal["iid"] = "iid"

    def split(
        self, labels: npt.NDArray[np.int64], clients: int, rng: np.random.Generator
    ) -> list[Indices]:
        """Random and not stratified, as the benchmark's code does it; floor(N/K) each."""
        _check_enough(len(labels), clients, 1)
        size = len(labels) // clients
        dealt = rng.permutation(len(labels))[: size * clients].reshape(clients, size)
        return [_sorted(part) for part in dealt]


class IidStratified(PartitionOptions):
    """Every client gets the same number of samples of every class."""

    iid: ClassVar[bool] = True
    name: Literal["iid_stratified"] = "iid_stratified"

    def split(
        self, labels: npt.NDArray[np.int64], clients: int, rng: np.random.Generator
    ) -> list[Indices]:
        """floor(N_c/K) of each class c, as the papers describe IID."""
        _check_enough(len(labels), clients, 1)
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
        return [_sorted(part) for part in np.concatenate(shares, axis=1)]


class BernoulliDirichlet(PartitionOptions):
    """Clients own each class with probability p and share it in Dirichlet(alpha) proportions."""

    iid: ClassVar[bool] = False
    name: Literal["bernoulli_dirichlet"] = "bernoulli_dirichlet"
    p: float = Field(default=0.7, gt=0, le=1)
    alpha: float = Field(default=10.0, gt=0, allow_inf_nan=False)
    min_size: int = Field(default=2, ge=1)

    def split(
        self, labels: npt.NDArray[np.int64], clients: int, rng: np.random.Generator
    ) -> list[Indices]:
        """Non-IID(p, alpha), redrawn as a whole until every client has `min_size` samples."""
        _check_enough(len(labels), clients, self.min_size)
        best = 0
        for _ in range(TRIES):
            holder = self._deal(labels, clients, rng)
            smallest = int(np.bincount(holder, minlength=clients).min())
            if smallest >= self.min_size:
                return [_sorted(np.flatnonzero(holder == client)) for client in range(clients)]
            best = max(best, smallest)
        raise UserError(
            f"partition.name=bernoulli_dirichlet: p={self.p}, alpha={self.alpha} left a client "
            f"with fewer than min_size={self.min_size} samples in all of {TRIES} draws ({clients} "
            f"clients, {len(labels)} samples, best smallest client {best}); "
            "use fewer clients, a larger p or alpha, or a smaller min_size"
        )

    def _deal(
        self, labels: npt.NDArray[np.int64], clients: int, rng: np.random.Generator
    ) -> Indices:
        """The holder of every sample."""
        present = np.unique(labels)
        owns = self._ownership(clients, len(present), rng)
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

    def _ownership(
        self, clients: int, classes: int, rng: np.random.Generator
    ) -> npt.NDArray[np.bool_]:
        """The Bernoulli matrix (client x class) without an empty row or column.

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


PARTITIONS: Final[dict[str, type[PartitionOptions]]] = {
    "iid": Iid,
    "iid_stratified": IidStratified,
    "bernoulli_dirichlet": BernoulliDirichlet,
}


def _check_enough(samples: int, clients: int, each: int) -> None:
    if clients < 1:
        raise UserError(f"clients={clients}: at least 1 is needed")
    if clients * each > samples:
        raise UserError(
            f"clients={clients}: {samples} training samples are too few for at least {each} each; "
            f"use at most {samples // each} clients"
        )


def _sorted(part: npt.NDArray[Any]) -> Indices:
    return np.sort(part).astype(np.int64)

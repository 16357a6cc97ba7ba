"""What every rule that deals the training samples has in common."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from feddiv.core.arrays import Rows
from feddiv.core.errors import UserError
from feddiv.core.options import Options
from feddiv.data.dataset import Dataset

DEALT_TO: Final = 10  # clients, where nobody says how many


@dataclass(frozen=True, eq=False)
class Partition:
    """What each client holds: sorted sample indices, none twice; names where clients have any."""

    samples: tuple[Rows, ...]
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, holder: Rows, clients: int) -> "Partition":
        """From the client of every sample [N]; a negative one is nobody."""
        return cls(tuple(_sorted(np.flatnonzero(holder == client)) for client in range(clients)))

    @classmethod
    def rows(cls, rows: Any) -> "Partition":
        """From one collection of indices per client, in any order."""
        return cls(tuple(_sorted(row) for row in rows))


class PartitionOptions(Options, ABC):
    """A rule that says which client holds which training samples.

    `iid` says whether clients differ in nothing but chance, and perhaps in size. `natural` rules
    take the clients as the data has them: there `clients.count` is not a choice.
    """

    iid: ClassVar[bool]
    natural: ClassVar[bool] = False
    name: str

    def settled(self, clients: int | None, *, named: bool) -> tuple["PartitionOptions", int | None]:
        """The rule and clients.count for data that name their clients (`named`), or do not.

        By default they are these; a rule that leaves it to the data gives another.
        """
        return self, clients

    @abstractmethod
    def split(self, dataset: Dataset, clients: int | None, rng: np.random.Generator) -> Partition:
        """The clients' samples; `clients` is None only for natural rules, as the data has them."""


class DealtOptions(PartitionOptions):
    """A rule that deals samples to as many clients as are wanted, by their labels."""

    def split(self, dataset: Dataset, clients: int | None, rng: np.random.Generator) -> Partition:
        """The samples of `clients` clients."""
        if clients is None:
            raise UserError(f"clients.count: partition.name={self.name} needs a number")
        return self.deal(dataset.train.labels.cpu().numpy().astype(np.int64), clients, rng)

    @abstractmethod
    def deal(self, labels: Rows, clients: int, rng: np.random.Generator) -> Partition:
        """The samples of each client, given the labels [N]."""


def check_enough(samples: int, clients: int, each: int) -> None:
    """Refuse more clients than there are samples for."""
    if clients < 1:
        raise UserError(f"clients={clients}: at least 1 is needed")
    if clients * each > samples:
        raise UserError(
            f"clients={clients}: {samples} training samples are too few for at least {each} each; "
            f"use at most {samples // each} clients"
        )


def _sorted(part: npt.NDArray[Any]) -> Rows:
    return np.sort(part).astype(np.int64)

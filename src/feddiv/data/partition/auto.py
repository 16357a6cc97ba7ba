"""Clients as the data has them, and where it has none, dealt."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from feddiv.data.dataset import Dataset
from feddiv.data.partition.even import Iid
from feddiv.data.partition.natural import Natural
from feddiv.data.partition.partition_options import DEALT_TO, Partition, PartitionOptions


class Auto(PartitionOptions):
    """As `natural` where the data name clients, else as `iid`; a run's config says which it was.

    `deal_to` is the number of clients where samples are dealt and clients.count is left open;
    `min_size` and `small` are those of `natural`.
    """

    iid: ClassVar[bool] = False
    natural: ClassVar[bool] = True  # clients.count is not a choice before the data are known
    name: Literal["auto"] = "auto"
    deal_to: int = Field(default=DEALT_TO, ge=1, le=1_000_000)
    min_size: int = Field(default=2, ge=1, le=1_000_000_000)
    small: Literal["refuse", "drop"] = "refuse"

    def settled(self, clients: int | None, *, named: bool) -> tuple[PartitionOptions, int | None]:
        """The rule for data that name clients, or do not."""
        if named:
            return Natural(min_size=self.min_size, small=self.small), clients
        return Iid(), clients or self.deal_to

    def split(self, dataset: Dataset, clients: int | None, rng: np.random.Generator) -> Partition:
        """The samples of each client by the rule that suits the data."""
        rule, count = self.settled(clients, named=dataset.holder is not None)
        return rule.split(dataset, count, rng)

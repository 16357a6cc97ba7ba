"""Who holds which training samples, by name."""

from typing import Final

from feddiv.data.partition.auto import Auto
from feddiv.data.partition.even import Iid, IidStratified, Quantity
from feddiv.data.partition.natural import Annotator, Natural
from feddiv.data.partition.partition_options import DEALT_TO, PartitionOptions
from feddiv.data.partition.skewed import BernoulliDirichlet, Dirichlet, Shards

PARTITIONS: Final[dict[str, type[PartitionOptions]]] = {
    "auto": Auto,
    "iid": Iid,
    "iid_stratified": IidStratified,
    "bernoulli_dirichlet": BernoulliDirichlet,
    "dirichlet": Dirichlet,
    "shards": Shards,
    "quantity": Quantity,
    "natural": Natural,
    "annotator": Annotator,
}

__all__ = [
    "DEALT_TO",
    "PARTITIONS",
    "Annotator",
    "Auto",
    "BernoulliDirichlet",
    "Dirichlet",
    "Iid",
    "IidStratified",
    "Natural",
    "PartitionOptions",
    "Quantity",
    "Shards",
]

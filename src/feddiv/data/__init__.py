"""Samples, who holds them, and what was done to their labels."""

from feddiv.data.data_options import DataOptions
from feddiv.data.dataset import Dataset, Split
from feddiv.data.draw.draw import OUTSIDE, Draw, make_draw
from feddiv.data.noise import (
    NOISES,
    Human,
    Instance,
    Mixed,
    NoiseOptions,
    NoNoise,
    OpenSet,
    Pair,
    Symmetric,
)
from feddiv.data.partition import (
    PARTITIONS,
    Annotator,
    Auto,
    BernoulliDirichlet,
    Dirichlet,
    Iid,
    IidStratified,
    Natural,
    PartitionOptions,
    Quantity,
    Shards,
)
from feddiv.data.samples import Samples, client_samples, held_out_samples
from feddiv.data.sources import SOURCES, Source, load_dataset
from feddiv.data.transform import Augment, Transform
from feddiv.data.watcher import DataWatcher

__all__ = [
    "NOISES",
    "OUTSIDE",
    "PARTITIONS",
    "SOURCES",
    "Annotator",
    "Augment",
    "Auto",
    "BernoulliDirichlet",
    "DataOptions",
    "DataWatcher",
    "Dataset",
    "Dirichlet",
    "Draw",
    "Human",
    "Iid",
    "IidStratified",
    "Instance",
    "Mixed",
    "Natural",
    "NoNoise",
    "NoiseOptions",
    "OpenSet",
    "Pair",
    "PartitionOptions",
    "Quantity",
    "Samples",
    "Shards",
    "Source",
    "Split",
    "Symmetric",
    "Transform",
    "client_samples",
    "held_out_samples",
    "load_dataset",
    "make_draw",
]

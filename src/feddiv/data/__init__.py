"""Samples, who holds them, and what was done to their labels."""

from feddiv.data.draw import Draw, make_draw
from feddiv.data.noise import NOISES, NoiseOptions, NoNoise, Symmetric
from feddiv.data.options import DataOptions
from feddiv.data.partition import (
    PARTITIONS,
    BernoulliDirichlet,
    Iid,
    IidStratified,
    PartitionOptions,
)
from feddiv.data.samples import Samples, client_samples
from feddiv.data.sources import SOURCES, Source, load_dataset
from feddiv.data.store import Dataset, Split
from feddiv.data.transform import Augment, Transform

__all__ = [
    "NOISES",
    "PARTITIONS",
    "SOURCES",
    "Augment",
    "BernoulliDirichlet",
    "DataOptions",
    "Dataset",
    "Draw",
    "Iid",
    "IidStratified",
    "NoNoise",
    "NoiseOptions",
    "PartitionOptions",
    "Samples",
    "Source",
    "Split",
    "Symmetric",
    "Transform",
    "client_samples",
    "load_dataset",
    "make_draw",
]

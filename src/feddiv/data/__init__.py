"""Samples, who holds them, and what was done to their labels."""

from feddiv.data.data_options import DataOptions
from feddiv.data.dataset import Dataset
from feddiv.data.draw.draw import OUTSIDE, Draw, make_draw
from feddiv.data.noise import NOISES, NoiseOptions
from feddiv.data.partition import PARTITIONS, PartitionOptions
from feddiv.data.samples import Samples, client_samples, held_out_samples, samples_to_test
from feddiv.data.sources import SOURCES, Loaded, load_dataset
from feddiv.data.transform import Augment, Transform
from feddiv.data.watcher import DataWatcher

__all__ = [
    "NOISES",
    "OUTSIDE",
    "PARTITIONS",
    "SOURCES",
    "Augment",
    "DataOptions",
    "DataWatcher",
    "Dataset",
    "Draw",
    "Loaded",
    "NoiseOptions",
    "PartitionOptions",
    "Samples",
    "Transform",
    "client_samples",
    "held_out_samples",
    "load_dataset",
    "make_draw",
    "samples_to_test",
]

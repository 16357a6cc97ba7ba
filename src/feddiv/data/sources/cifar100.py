"""CIFAR-100 from the files of its python version, with the fine labels."""

from typing import Final

from feddiv.data.data_options import DataOptions
from feddiv.data.dataset import Dataset
from feddiv.data.published.benchmarks import CIFAR100
from feddiv.data.sources.cifar import Cifar

FILES: Final = Cifar(
    CIFAR100,
    meta="meta",
    names="fine_label_names",
    train=("train",),
    test="test",
    labels="fine_labels",
    # The data's own constants, rounded as in FedCorr's and FedDiv's code.
    mean=(0.507, 0.487, 0.441),
    std=(0.267, 0.256, 0.276),
)


def load(options: DataOptions) -> Dataset:
    """50,000 training and 10,000 test images of 100 classes."""
    return FILES.load(options)

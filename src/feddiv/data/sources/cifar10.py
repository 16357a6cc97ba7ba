"""CIFAR-10 from the files of its python version."""

from typing import Final

from feddiv.data.data_options import DataOptions
from feddiv.data.dataset import Dataset
from feddiv.data.published.benchmarks import CIFAR10
from feddiv.data.sources.cifar import Cifar

FILES: Final = Cifar(
    CIFAR10,
    meta="batches.meta",
    names="label_names",
    train=tuple(f"data_batch_{number}" for number in range(1, 6)),
    test="test_batch",
    labels="labels",
    # ImageNet's constants: what FedCorr's and FedDiv's code normalise CIFAR-10 with.
    mean=(0.485, 0.456, 0.406),
    std=(0.229, 0.224, 0.225),
)


def load(options: DataOptions) -> Dataset:
    """50,000 training and 10,000 test images of 10 classes."""
    return FILES.load(options)

"""scikit-learn's hand-written digits: real images that need no download."""

from __future__ import annotations

import numpy as np
import torch

from feddiv.data.data_options import DataOptions
from feddiv.data.dataset import Dataset, Split
from feddiv.data.sample_names import Numbered
from feddiv.data.statistics import image_statistics
from feddiv.data.test_split import SPLIT_SEED
from feddiv.data.transform import Augment

TEST_IMAGES = 360


def load(options: DataOptions) -> Dataset:
    """1,437 training and 360 test images of 8x8 pixels, the same split in every run."""
    from sklearn.datasets import load_digits  # scikit-learn takes a second to load

    digits = load_digits()
    images = np.rint(digits.images * (255 / 16)).astype(np.uint8)[..., None]
    labels = digits.target.astype(np.int64)
    # RandomState's streams are frozen by numpy's policy; a new numpy keeps the split.
    order = np.random.RandomState(SPLIT_SEED).permutation(len(labels))
    test, train = order[:TEST_IMAGES], order[TEST_IMAGES:]
    mean, std = image_statistics(images[train])
    train_labels = torch.from_numpy(labels[train])
    return Dataset(
        name="digits",
        classes=tuple(str(digit) for digit in range(10)),
        train=Split(torch.from_numpy(images[train]), train_labels),
        test=Split(torch.from_numpy(images[test]), torch.from_numpy(labels[test])),
        mean=mean,
        std=std,
        augment=Augment(pad=1),
        truth=train_labels,
        names=Numbered(train),
    )

"""Test samples for data that comes without."""

from typing import Final

import numpy as np

from feddiv.core.arrays import Rows
from feddiv.core.errors import UserError

SPLIT_SEED: Final = 2024
FIFTH: Final = 0.2


def hold_out(labels: Rows, share: float | None = None) -> tuple[Rows, Rows]:
    """Sorted training and test rows; this share of every class, by default a fifth.

    The same in every run. There may be no test rows where classes are small.
    """
    rng = np.random.RandomState(SPLIT_SEED)
    share = FIFTH if share is None else share
    test = [np.empty(0, dtype=np.int64)]
    ends = np.cumsum(np.unique(labels, return_counts=True)[1])
    for members in np.split(np.argsort(labels, kind="stable"), ends[:-1]):  # class by class
        test.append(rng.permutation(members)[: int(share * len(members) + 0.5)])
    held = np.sort(np.concatenate(test))
    return np.setdiff1d(np.arange(len(labels)), held), held


def some_held_out(labels: Rows, share: float | None, where: str) -> tuple[Rows, Rows]:
    """As `hold_out`, for data that must have test samples unless the share is 0."""
    train, test = hold_out(labels, share)
    if len(test) == 0 and share != 0:
        part = f"{FIFTH if share is None else share:.0%}"
        raise UserError(
            f"{where}: {len(labels)} samples are too few to hold out {part} of each class as test"
        )
    return train, test


def cut(
    labels: Rows, truth: Rows | None, share: float | None, where: str
) -> tuple[Rows, Rows, Rows]:
    """Rows to train on, rows to test on, and labels to judge these by: the truth where known."""
    kept, held = some_held_out(labels, share, where)
    return kept, held, (labels if truth is None else truth)[held]

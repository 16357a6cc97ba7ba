"""What tells one set of samples from another."""

from __future__ import annotations

import hashlib
from typing import Any, Final

import numpy as np
import torch

from feddiv.data.dataset import Dataset, Split

CHUNK: Final = 1 << 26  # bytes that are looked at at a time
MOST: Final = 1 << 28  # bytes of a mapped file; it may be larger than memory


def label_fingerprint(labels: torch.Tensor) -> str:
    """sha256 (hex) of the labels, in order: tells one set of training samples from another."""
    return hashlib.sha256(labels.cpu().numpy().astype("<i8").tobytes()).hexdigest()


def training_fingerprint(dataset: Dataset) -> str:
    """sha256 (hex) of the training inputs, in order, and of what they are normalised with."""
    # Not to the last digit: other machines may add up in another order.
    numbers = " ".join(f"{number:.9g}" for number in (*dataset.mean, *dataset.std))
    digest = hashlib.sha256(f"{numbers} {dataset.window}\n".encode())
    _update(digest, dataset.train)
    return digest.hexdigest()


def evaluation_fingerprint(dataset: Dataset) -> str:
    """sha256 (hex) of the test inputs and labels, in order; empty where there are none."""
    if not len(dataset.test):
        return ""
    digest = hashlib.sha256(label_fingerprint(dataset.test.labels).encode())
    _update(digest, dataset.test)
    return digest.hexdigest()


def _update(digest: Any, split: Split) -> None:
    """All inputs; of a mapped file that is large, rows at equal distances."""
    inputs, views = split.inputs, "" if split.places is None else f" {split.places.shape[1]} views"
    digest.update(f"{inputs.dtype} {(len(split), *inputs.shape[1:])}{views}\n".encode())
    row_bytes = max(1, inputs[:1].nbytes)
    rows = np.arange(len(split))
    if split.pages is not None and len(rows) > MOST // row_bytes:
        rows = np.linspace(0, len(rows) - 1, max(1, MOST // row_bytes)).astype(np.int64)
    step = max(1, CHUNK // row_bytes)
    for start in range(0, len(rows), step):
        some = split.rows(torch.from_numpy(rows[start : start + step]))
        digest.update(np.ascontiguousarray(some.cpu().numpy()))
        split.let_go()

"""Mean and spread of training data, for normalisation."""

from collections.abc import Callable, Iterator
from functools import reduce

import numpy as np
import numpy.typing as npt

from feddiv.core.arrays import Array

Numbers = tuple[float, ...]

_CHUNK = 4096


def image_statistics(images: npt.NDArray[np.uint8]) -> tuple[Numbers, Numbers]:
    """Mean and std per channel of uint8 [N,H,W,C], on the scale [0,1]."""
    counts = np.zeros((images.shape[3], 256), dtype=np.int64)
    for start in range(0, len(images), _CHUNK):
        counts += value_counts(images[start : start + _CHUNK])
    return counted_statistics(counts)


def value_counts(images: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """How often each of the 256 values occurs in each channel, int64 [C,256].

    Counts are exact, can be added up, and need no float copy of the images.
    """
    channels = range(images.shape[3])
    return np.stack([np.bincount(images[..., c].reshape(-1), minlength=256) for c in channels])


def counted_statistics(counts: npt.NDArray[np.int64]) -> tuple[Numbers, Numbers]:
    """Mean and std per channel, on the scale [0,1], of pixels that were counted."""
    values = np.arange(256) / 255
    total = counts.sum(axis=1)
    mean = counts @ values / total
    spread = (counts * (values - mean[:, None]) ** 2).sum(axis=1) / total
    return _numbers(mean), _numbers(safe_std(np.sqrt(spread), np.ones(len(counts))))


def feature_sums(features: npt.NDArray[np.floating]) -> tuple[Array, Array]:
    """Sum and sum of squares per feature [D] of vectors [N,D], in float64."""
    exact = features.astype(np.float64)
    return exact.sum(axis=0), np.square(exact).sum(axis=0)


def feature_statistics(features: npt.NDArray[np.float32]) -> tuple[Numbers, Numbers]:
    """Mean and std per feature of float32 [N,D]."""
    return statistics_of_parts(lambda start, stop: features[start:stop], len(features))


def statistics_of_parts(
    part: Callable[[int, int], npt.NDArray[np.float32]], count: int
) -> tuple[Numbers, Numbers]:
    """The same of rows that are read a part at a time, from one row to another."""

    # Not all at once: numpy would make a float64 copy of them.
    def parts() -> Iterator[npt.NDArray[np.float32]]:
        return (part(start, min(start + _CHUNK, count)) for start in range(0, count, _CHUNK))

    mean = _summed(each.sum(axis=0, dtype=np.float64) for each in parts()) / count
    squares = _summed(np.square(each - mean).sum(axis=0) for each in parts())
    size = np.max([np.abs(each).max(axis=0) for each in parts()], axis=0)
    std = safe_std(np.sqrt(squares / count), size.astype(np.float64))
    return _numbers(mean), _numbers(std)


def _summed(parts: Iterator[Array]) -> Array:
    return reduce(np.add, parts)


def safe_std(std: Array, size: Array) -> Array:
    """1 where a channel or feature is constant up to rounding: centred, but not blown up."""
    return np.where(std > np.maximum(1e-6 * size, 1e-30), std, 1.0)


def _numbers(values: Array) -> Numbers:
    return tuple(float(value) for value in values)

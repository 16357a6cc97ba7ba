"""Mean and spread of training data, for normalisation."""

import numpy as np
import numpy.typing as npt

Numbers = tuple[float, ...]

_CHUNK = 4096


def image_statistics(images: npt.NDArray[np.uint8]) -> tuple[Numbers, Numbers]:
    """Mean and std per channel of uint8 [N,H,W,C], on the scale [0,1].

    Counts of the 256 values are exact and need no float copy of all images.
    """
    channels = images.shape[3]
    counts = np.zeros((channels, 256), dtype=np.int64)
    for start in range(0, len(images), _CHUNK):
        chunk = images[start : start + _CHUNK]
        for channel in range(channels):
            counts[channel] += np.bincount(chunk[..., channel].reshape(-1), minlength=256)
    values = np.arange(256) / 255
    total = counts.sum(axis=1)
    mean = counts @ values / total
    spread = (counts * (values - mean[:, None]) ** 2).sum(axis=1) / total
    return _numbers(mean), _safe(np.sqrt(spread), np.ones(channels))


def feature_statistics(features: npt.NDArray[np.float32]) -> tuple[Numbers, Numbers]:
    """Mean and std per feature of float32 [N,D]."""
    mean = features.mean(axis=0, dtype=np.float64)
    std = features.std(axis=0, dtype=np.float64)
    return _numbers(mean), _safe(std, np.abs(features).max(axis=0).astype(np.float64))


def _safe(std: npt.NDArray[np.float64], size: npt.NDArray[np.float64]) -> Numbers:
    """1 where a channel or feature is constant up to rounding: centred, but not blown up."""
    return _numbers(np.where(std > np.maximum(1e-6 * size, 1e-30), std, 1.0))


def _numbers(values: npt.NDArray[np.float64]) -> Numbers:
    return tuple(float(value) for value in values)

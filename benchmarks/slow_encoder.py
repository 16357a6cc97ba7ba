"""An encoder that takes its time over a few thousand tiny images, to be crashed (`crash.py`)."""

import time

import numpy as np
import torch
from torch import Tensor, nn

from feddiv.core.randomness import Streams
from feddiv.data import DataOptions, Dataset, load_dataset
from feddiv.data.encoding.feature_store import FeatureStore
from feddiv.data.sources.npz import build_dataset
from feddiv.data.watcher import DataWatcher
from feddiv.encoders.choice import EncoderChoice
from feddiv.encoders.registry import make_encoder

NAME = "slow_encoder:Slow"
SIDE, WIDTH = 8, 32  # pixels; numbers of a vector
TRAIN, TEST = 4500, 500  # ten chunks of 512 in all but twelve images
PAUSE = 0.02  # seconds a batch: by two processes nearly a second for all of them


class Slow(nn.Module):
    """Random projections of the pixels: no two images have the same vector."""

    size = SIDE

    def __init__(self) -> None:
        super().__init__()
        drawn = np.random.default_rng(0).standard_normal((3 * SIDE * SIDE, WIDTH))
        self.register_buffer("projections", torch.from_numpy(drawn).float())

    def forward(self, x: Tensor) -> Tensor:
        """Vectors [n, WIDTH] of images [n, 3, SIDE, SIDE]."""
        time.sleep(PAUSE)
        return x.reshape(len(x), -1) @ self.projections


def encoded(watcher: DataWatcher | None = None) -> Dataset:
    """The images as feature vectors, through the cache, as a run has them."""
    draws = np.random.default_rng(1)
    count = TRAIN + TEST
    pixels = draws.integers(0, 256, (count, SIDE, SIDE, 3), dtype=np.uint8)
    labels = np.arange(count) % 2
    arrays = {
        **{"x": pixels[:TRAIN], "y": labels[:TRAIN]},
        **{"x_test": pixels[TRAIN:], "y_test": labels[TRAIN:]},
    }
    options = DataOptions(source="python", encoder=NAME)
    brought = build_dataset(arrays, "python", None)
    return load_dataset(options, Streams(0), watcher, brought=brought)


def stored() -> int:
    """How many vectors the cache has."""
    return len(FeatureStore(make_encoder(EncoderChoice(NAME), SIDE)).opened()[0])

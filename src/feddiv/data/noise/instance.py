"""Noise that depends on what the sample looks like.

The instance-dependent noise of Xia et al., "Part-dependent Label Noise: Towards Instance-dependent
Label Noise" (NeurIPS 2020), their algorithm for generating it.
"""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field

from feddiv.core.arrays import Array, Parts
from feddiv.data.dataset import Dataset
from feddiv.data.noise.noise_options import Corruption, LevelOptions, labels_of
from feddiv.data.watcher import DataWatcher

MOST_ROWS: Final = 1024
MOST_BYTES: Final = 1 << 26


class Instance(LevelOptions):
    """Each sample has its own flip rate, and its features choose the wrong class (Xia et al. 2020).

    The flip rates of a client at level delta_k are drawn from a normal distribution around it,
    `spread` wide and cut off at 0 and 1; a client at level 0 has none. Cut off, their mean is less
    extreme than delta_k: the mean is what the draw records as the client's level.
    """

    name: Literal["instance"] = "instance"
    spread: float = Field(default=0.1, ge=0, le=1)

    def corrupt(
        self,
        dataset: Dataset,
        parts: Parts,
        rng: np.random.Generator,
        watcher: DataWatcher | None = None,
    ) -> Corruption:
        """A sample x of class y keeps it with 1-q; else softmax(x w_y) over the others decides.

        The projections w_y are the same for all clients: they confuse the same things.
        """
        levels = self.client_levels(len(parts), rng)
        labels = labels_of(dataset)
        flip_rate = np.zeros(len(labels))  # q
        for client, (part, level) in enumerate(zip(parts, levels, strict=True)):
            if level > 0 and len(part):
                flip_rate[part] = truncated_normal(level, self.spread, len(part), rng)
                levels[client] = flip_rate[part].mean()
        chance, chosen = rng.random(len(labels)), rng.random(len(labels))
        flipped = chance < flip_rate

        given, classes = labels.copy(), len(dataset.classes)
        size = int(np.prod(dataset.input_shape))
        step = max(1, min(MOST_ROWS, MOST_BYTES // (8 * size)))
        for label in range(classes):
            projection = rng.standard_normal((size, classes))  # w_y
            rows = np.flatnonzero(flipped & (labels == label))
            for start in range(0, len(rows), step):
                chunk = rows[start : start + step]
                wrong = _without(label, _features(dataset, chunk) @ projection)
                given[chunk] = _drawn(wrong, chosen[chunk])
                dataset.train.let_go()
        return Corruption(given, levels, self.kinds(levels))


def truncated_normal(mean: float, spread: float, size: int, rng: np.random.Generator) -> Array:
    """Draws around `mean` in [0, 1]; what falls outside is drawn again."""
    drawn = rng.normal(mean, spread, size)
    while (outside := (drawn < 0) | (drawn > 1)).any():
        drawn[outside] = rng.normal(mean, spread, int(outside.sum()))
    return drawn


def _features(dataset: Dataset, rows: npt.NDArray[np.int64]) -> Array:
    """Normalised inputs [n, S], not augmented."""
    index = torch.from_numpy(rows).to(dataset.train.inputs.device)
    plain = dataset.transform.plain(dataset.train.rows(index))
    # float64: another order of summation must not decide which class is drawn.
    return plain.reshape(len(rows), -1).cpu().numpy().astype(np.float64)


def _without(label: int, logits: Array) -> Array:
    """softmax over all classes but this one, [n, C]."""
    logits[:, label] = -np.inf
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _drawn(probabilities: Array, chance: Array) -> npt.NDArray[np.int64]:
    """One class per row, by where `chance` [n] falls in the cumulated probabilities."""
    reached = np.cumsum(probabilities, axis=1)
    # Rounding may leave the sum a little below 1, so the last step is that of the sum itself.
    return np.asarray((reached <= chance[:, None] * reached[:, -1:]).sum(axis=1))

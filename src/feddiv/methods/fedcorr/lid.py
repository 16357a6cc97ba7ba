"""Local intrinsic dimensionality: in how many directions a point's neighbours lie.

The maximum-likelihood estimate from the distances to the nearest neighbours. A model that has
memorised wrong labels spreads its outputs over more directions than one that was right.
"""

from __future__ import annotations

import numpy as np
import torch

from feddiv.core.arrays import Array

CAP = 1000.0  # far above any dimension: neighbours that are all equally far away give infinity
FEWEST = 3  # points: with one neighbour every estimate would be infinite
_EPSILON = 1e-6
_NEAREST = 1e-12  # equal points have no logarithm of a distance
_CHUNK = 250


def intrinsic_dimensions(points: Array, neighbours: int) -> Array:
    """LID of each point of [n, d] among the others, from 0 to `CAP`; n must be at least 3.

    With r_1 <= ... <= r_k the distances to the k nearest: -k / sum log(r_j / r_k), where k is
    `neighbours`, or all others where there are fewer.
    """
    k = min(neighbours, len(points) - 1)
    everything = torch.from_numpy(np.ascontiguousarray(points))
    found = []
    for chunk in torch.split(everything, _CHUNK):
        # Differences, not products: those of near points would drown in rounding.
        exact = "donot_use_mm_for_euclid_dist"
        distances = torch.cdist(chunk, everything, compute_mode=exact)
        nearest = distances.topk(k + 1, largest=False).values[:, 1:]  # the first is the point
        ratios = nearest.clamp_min(_NEAREST) / (nearest[:, -1:].clamp_min(_NEAREST) + _EPSILON)
        found.append(ratios.log().sum(dim=1) + _EPSILON)
    totals = torch.cat(found).numpy()
    return np.asarray(-k / np.minimum(totals, -k / CAP))

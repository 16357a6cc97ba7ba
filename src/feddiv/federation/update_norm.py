"""How far a client's models moved from what it was sent, as the server measures it."""

import math

import torch

from feddiv.core.arrays import Weights


def update_norm(weights: Weights, sent: Weights | None = None) -> float:
    """The Euclidean norm of the update, over the floating entries of all models.

    Without what was sent, it is the norm of the models themselves.
    """
    squares = 0.0
    for name, net in weights.items():
        for key, value in net.items():
            if value.is_floating_point():
                moved = (value if sent is None else value - sent[name][key]).reshape(-1)
                squares += float(torch.linalg.vector_norm(moved, dtype=torch.float64)) ** 2
    return math.sqrt(squares)

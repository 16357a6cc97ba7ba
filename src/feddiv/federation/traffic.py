"""Bytes that cross the network, as every carrier of messages counts them."""

from collections.abc import Mapping

import numpy as np

from feddiv.core.arrays import Weights
from feddiv.data.scaling import Scaling
from feddiv.methods.contract import Message, Reply


def message_bytes(message: Message, scaling: Scaling | None = None) -> int:
    """Bytes of a message on the way down, and of what features are standardised by."""
    standard = 0 if scaling is None else scaling.nbytes
    return _weights_bytes(message.weights) + _payload_bytes(message.payload) + standard


def reply_bytes(reply: Reply) -> int:
    """Bytes of a reply on the way up; n_k and each metric count 8.

    They are counted before the reply is checked: one that cannot be counted counts nothing.
    """
    try:
        weights = _weights_bytes(reply.weights) if reply.weights is not None else 0
        return weights + _payload_bytes(reply.payload) + 8 * (1 + len(reply.metrics))
    except Exception:  # it holds no tensors and arrays, and will be refused
        return 0


def _weights_bytes(weights: Weights) -> int:
    return sum(v.numel() * v.element_size() for state in weights.values() for v in state.values())


def _payload_bytes(payload: Mapping[str, np.ndarray]) -> int:
    return sum(np.asarray(value).nbytes for value in payload.values())

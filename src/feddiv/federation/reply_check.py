"""Whether a reply may be merged: it is checked against what the method declared."""

from collections.abc import Collection

import numpy as np

from feddiv.core.arrays import Weights
from feddiv.methods.contract import Declared, Kind, Message, Reply

NEVER_NEGATIVE = ("running_var", "num_batches_tracked")  # as torch's normalisation layers call them


class Refused(Exception):
    """A reply that may not be merged, and why."""


class Undeclared(Refused):
    """One that holds something else than its kind declares: another method, or a mistake in it."""


def check_reply(reply: Reply, kind: Kind, sent: Message, size: int) -> None:
    """Refuse a reply that lacks what its kind declares, holds anything else, or breaks its bounds.

    Its models have to be as they were `sent`, but for their numbers; `size` is the client's n_k.
    """
    if reply.samples != size:
        raise Refused(f"says it has {reply.samples} samples, said {size} at the start")
    for metric, entries in ((False, reply.payload), (True, reply.metrics)):
        for name, value in entries.items():
            if name not in kind.reply or kind.reply[name].metric != metric:
                raise Undeclared(f"{name} was not declared")
            _check_entry(name, value, kind.reply[name])
    for name, field in kind.reply.items():
        if not field.optional and name not in (reply.metrics if field.metric else reply.payload):
            raise Undeclared(f"{name} is missing")
    _check_weights(reply.weights or {}, kind.models, sent.weights)


def _check_entry(name: str, said: object, field: Declared) -> None:
    try:
        value = np.asarray(said, np.float64)
    except (TypeError, ValueError):
        raise Undeclared(f"{name} is not numeric") from None
    sizes = zip(value.shape, field.shape, strict=False)
    if value.ndim != len(field.shape) or any(w not in (None, is_) for is_, w in sizes):
        raise Undeclared(f"{name} has shape {value.shape}, declared {field.shape}")
    if not np.isfinite(value).all():
        raise Refused(f"{name} is not finite")
    if (value < field.low).any() or (value > field.high).any():
        raise Refused(f"{name} is outside [{field.low}, {field.high}]")


def _check_weights(weights: Weights, models: Collection[str], sent: Weights) -> None:
    if weights.keys() != set(models):
        raise Undeclared(
            f"holds the models {sorted(weights)} where {sorted(models)} were asked for"
        )
    for model, state in weights.items():
        if state.keys() != sent[model].keys():
            raise Refused(f"model {model} has other entries than were sent")
        for key, value in state.items():
            if (value.shape, value.dtype) != (sent[model][key].shape, sent[model][key].dtype):
                raise Refused(f"{model}.{key} has shape {tuple(value.shape)}, {value.dtype}")
            if key.endswith(NEVER_NEGATIVE) and (value < 0).any():
                raise Refused(f"{model}.{key} is negative")
            # A sum is finite only if all its terms are, and is found in one pass; it may overflow.
            if not value.sum().isfinite() and not value.isfinite().all():
                raise Refused(f"{model}.{key} is not finite")

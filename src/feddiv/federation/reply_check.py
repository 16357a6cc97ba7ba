"""Whether a reply may be merged: it is checked against what the method declared."""

from collections.abc import Collection

import numpy as np
import torch

from feddiv.core.arrays import Weights
from feddiv.core.terminal import NAME, SAID, shown
from feddiv.methods.contract import Declared, Kind, Message, Reply

NEVER_NEGATIVE = ("running_var", "num_batches_tracked")  # as torch's normalisation layers call them
# How far a visit may move a whole number of a model. It is a count of batches: more than this is no
# visit's, and near the largest number that there is the next honest client's count would turn
# negative.
COUNTED = 1 << 31


class Refused(Exception):
    """A reply that may not be merged, and why: one harmless line, whatever names came with it."""

    def __init__(self, why: str) -> None:
        super().__init__(shown(why, SAID))


class Undeclared(Refused):
    """One that holds something else than its kind declares: another method, or a mistake in it."""


def check_reply(reply: Reply, kind: Kind, sent: Message, size: int) -> None:
    """Refuse a reply that lacks what its kind declares, holds anything else, or breaks its bounds.

    Its models have to be as they were `sent`, but for their numbers; `size` is the client's n_k.
    Whatever is in the reply, nothing else is raised.
    """
    try:
        _check(reply, kind, sent, size)
    except Refused:
        raise
    except Exception as problem:  # what came has classes or sizes that nobody thought of
        raise Undeclared(f"cannot be looked at ({type(problem).__name__})") from None


def check_possible(reply: Reply, kind: Kind) -> None:
    """Refuse a reply with a number that is impossible by itself, whatever was said before it."""
    for name, value in reply.payload.items():
        impossible = kind.reply[name].impossible
        if impossible is not None and (why := impossible(np.asarray(value), reply.samples)):
            raise Refused(f"{name}: {why}")


def check_sender(client: object, asked: Collection[int], answered: Collection[int]) -> None:
    """Refuse a reply in the name of somebody who was not asked, or has answered."""
    if not _is_whole(client) or client not in asked:
        raise Refused("answers for somebody who was not asked")
    if client in answered:
        raise Refused("answers a second time")


def _check(reply: Reply, kind: Kind, sent: Message, size: int) -> None:
    if not _is_whole(reply.samples) or reply.samples != size:
        said = shown(str(reply.samples), NAME)
        raise Refused(f"says it has {said} samples, said {size} at the start")
    for metric, entries in ((False, reply.payload), (True, reply.metrics)):
        for name, value in entries.items():
            if name not in kind.reply or kind.reply[name].metric != metric:
                raise Undeclared(f"{shown(str(name), NAME)} was not declared")
            _check_entry(name, value, kind.reply[name])
    for name, field in kind.reply.items():
        if not field.optional and name not in (reply.metrics if field.metric else reply.payload):
            raise Undeclared(f"{name} is missing")
    _check_weights({} if reply.weights is None else reply.weights, kind.models, sent.weights)


def _check_entry(name: str, said: object, field: Declared) -> None:
    try:
        value = np.asarray(said)
    except (TypeError, ValueError):
        raise Undeclared(f"{name} is not numeric") from None
    if value.dtype.kind not in "fiub":  # texts and objects of Python become numbers too easily
        raise Undeclared(f"{name} is not numeric")
    sizes = zip(value.shape, field.shape, strict=False)
    if value.ndim != len(field.shape) or any(w not in (None, is_) for is_, w in sizes):
        raise Undeclared(f"{name} has shape {value.shape}, declared {field.shape}")
    if field.metric and not isinstance(said, int | float):  # it is written into a journal
        raise Undeclared(f"{name} is no plain number")
    with np.errstate(over="ignore"):  # a longer float may be infinite here
        value = value.astype(np.float64)
    if not np.isfinite(value).all():
        raise Refused(f"{name} is not finite")
    if (value < field.low).any() or (value > field.high).any():
        raise Refused(f"{name} is outside [{field.low}, {field.high}]")


def _check_weights(weights: Weights, models: Collection[str], sent: Weights) -> None:
    if weights.keys() != set(models):
        raise Undeclared(
            f"holds the models {shown(str(sorted(weights)), NAME)} where {sorted(models)} were "
            "asked for"
        )
    for model, state in weights.items():
        if state.keys() != sent[model].keys():
            raise Refused(f"model {model} has other entries than were sent")
        for key, value in state.items():
            if not _is_plain(value):
                raise Refused(f"{model}.{key} is no plain tensor")
            if (value.shape, value.dtype) != (sent[model][key].shape, sent[model][key].dtype):
                raise Refused(f"{model}.{key} has shape {tuple(value.shape)}, {value.dtype}")
            if key.endswith(NEVER_NEGATIVE) and (value < 0).any():
                raise Refused(f"{model}.{key} is negative")
            if not value.is_floating_point() and _moved_far(value, sent[model][key]):
                raise Refused(f"{model}.{key} is a whole number that no visit comes to")
            # A sum is finite only if all its terms are, and is found in one pass; it may overflow.
            if not value.sum().isfinite() and not value.isfinite().all():
                raise Refused(f"{model}.{key} is not finite")


def _moved_far(value: torch.Tensor, sent: torch.Tensor) -> bool:
    """Whether a whole number is further than COUNTED from what was sent."""
    now, before = value.long(), sent.long()
    return bool(((now > before + COUNTED) | (now < before - COUNTED)).any())


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_plain(value: object) -> bool:
    """Whether it is a tensor with its numbers in memory, one by one, and nothing attached."""
    return (
        isinstance(value, torch.Tensor)
        and value.layout is torch.strided
        and not (value.is_meta or value.is_quantized or value.requires_grad)
    )

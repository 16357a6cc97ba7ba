"""Values as they are now, to see later whether something has changed them."""

import hashlib
import random
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final

import numpy as np
import torch

from feddiv.core.trees import bytes_of

PLAIN = (type(None), bool, int, float, complex, str, bytes)


def snapshot(value: object, inside: tuple[int, ...] = ()) -> object:
    """Something that is equal for values that are equal in every part; `inside` ends loops."""
    if isinstance(value, PLAIN):
        return type(value), repr(value)
    if isinstance(value, torch.nn.Module):
        value = value.state_dict()
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().contiguous()
        return str(value.dtype), tuple(value.shape), hashlib.sha256(bytes_of(value)).hexdigest()
    if isinstance(value, np.ndarray):
        body = np.ascontiguousarray(value).tobytes()
        return str(value.dtype), value.shape, hashlib.sha256(body).hexdigest()
    if id(value) in inside:
        return "loop"
    inside = (*inside, id(value))
    if isinstance(value, Mapping):
        return [(repr(key), snapshot(each, inside)) for key, each in value.items()]
    if isinstance(value, list | tuple):
        return [snapshot(each, inside) for each in value]
    if isinstance(value, set | frozenset):
        return sorted(map(repr, value))
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: snapshot(getattr(value, each.name), inside) for each in fields(value)}
    if isinstance(value, type) or not hasattr(value, "__dict__"):
        return type(value), id(value)
    return type(value), snapshot(vars(value), inside)


# What to use instead of each generator that everything in a process shares.
REMEDIES: Final = {
    "torch's global generator": 'generator=rng.torch("purpose"), or `with rng.seeded("purpose"):`',
    "numpy's global generator (np.random)": 'rng.numpy("purpose")',
    "Python's global generator (random)": 'rng.numpy("purpose")',
}


class Generators:
    """The generators that everything in a process shares, as they are now."""

    def __init__(self) -> None:
        self._torch = torch.get_rng_state()
        self._numpy: Any = np.random.get_state()
        self._python = random.getstate()

    def used(self) -> list[str]:
        """Those that have been drawn from or seeded since then; they are put back."""
        now = Generators()
        same = (
            torch.equal(self._torch, now._torch),
            snapshot(self._numpy) == snapshot(now._numpy),
            self._python == now._python,
        )
        torch.set_rng_state(self._torch)
        np.random.set_state(self._numpy)
        random.setstate(self._python)
        return [name for name, unused in zip(REMEDIES, same, strict=True) if not unused]

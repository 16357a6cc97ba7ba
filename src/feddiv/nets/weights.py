"""Published weights, to start a net from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from feddiv.core.errors import UserError

NAMED = 20  # keys of each kind that an error lists
WRAPPERS = ("module.", "net/")  # by torch.nn.DataParallel, and in models of our own runs
COUNTER = ".num_batches_tracked"  # of batch norm: older files and other formats have none


def unwrapped(weights: dict[str, torch.Tensor], net: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The weights by the names they had before somebody put another in front of each."""
    for wrapper in WRAPPERS:
        own = any(key.startswith(wrapper) for key in net.state_dict())  # a part of the net itself
        if not own and all(key.startswith(wrapper) for key in weights):
            return {key.removeprefix(wrapper): value for key, value in weights.items()}
    return weights


def start_from(
    net: torch.nn.Module,
    weights: Mapping[str, torch.Tensor],
    head: str | None,
    *,
    subject: str,
    hint: str,
    fresh_head: bool,
) -> None:
    """Load weights into a net; the head at path `head` stays as drawn where classes differ.

    With `fresh_head` it always does. `subject` names file and net in errors, which end in `hint`.
    """
    own = net.state_dict()
    kept = _head_keys(own, weights, head, fresh=fresh_head)
    taken = {key: value for key, value in weights.items() if key not in kept}
    wanted = {key: value for key, value in own.items() if key not in kept}
    wrong = {
        key: f"{key} is {tuple(taken[key].shape)}, not {tuple(value.shape)}"
        for key, value in wanted.items()
        if key in taken and taken[key].shape != value.shape
    }
    missing = [key for key in wanted if key not in taken and not key.endswith(COUNTER)]
    unexpected = sorted(key for key in taken if key not in wanted)  # a file has no order
    parts = {"missing": missing, "unexpected": unexpected, "shape": list(wrong.values())}
    faults = [f"{kind}: {_listed(keys)}" for kind, keys in parts.items() if keys]
    if faults:
        raise UserError(f"{subject}: {'; '.join(faults)}{hint}")
    for key, value in taken.items():
        if not value.isfinite().all():
            raise UserError(f"{subject}: {key} holds a value that is not finite")
    net.load_state_dict({**own, **taken})


def _head_keys(
    own: Mapping[str, torch.Tensor],
    weights: Mapping[str, torch.Tensor],
    head: str | None,
    *,
    fresh: bool,
) -> set[str]:
    """Entries of the head, if it is to be replaced: all of it, or none of it."""
    if head is None:
        return set()
    prefix = f"{head}." if head else ""  # a net may be nothing but a linear layer
    keys = {f"{prefix}weight", f"{prefix}bias"}
    there, mine = weights.get(f"{prefix}weight"), own[f"{prefix}weight"]
    if there is None:  # published without a head, as feature extractors are
        return keys
    same_features = there.dim() == 2 and there.shape[1] == mine.shape[1]
    return keys if same_features and (fresh or len(there) != len(mine)) else set()


def _listed(keys: Sequence[str]) -> str:
    more = f" and {len(keys) - NAMED} more" if len(keys) > NAMED else ""
    return ", ".join(keys[:NAMED]) + more

"""Plain trees: how states, memories and replies are written down, sent and read back.

A tree is made of None, bools, numbers, strings, arrays, tensors, lists, tuples, dicts and frozen
dataclasses of these. It is taken apart into JSON and named tensors, and put together again by the
class it is known to be: what is read never says which class to make, so nothing that comes from
disk or from another process can.
"""

from __future__ import annotations

import json
import math
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
import torch

from feddiv.core.arrays import StateDict

Tensors = StateDict
Json = Any

_MOST_AXES = 64
_ALIGNED = 8  # bytes: where an array starts in a packed record


class NotATree(ValueError):
    """A value that cannot be written down, or JSON and tensors that make no such value."""


def dismantle(value: object, name: str = "") -> tuple[Json, Tensors]:
    """JSON, and the tensors it refers to by the path at which they stood."""
    tensors: Tensors = {}
    return _apart(value, name, tensors), tensors


def assemble(kind: Any, tree: Json, tensors: Mapping[str, torch.Tensor]) -> Any:
    """The value of class `kind` that was taken apart into these; NotATree for anything else."""
    try:
        return _together(kind, tree, tensors)
    except Exception as error:  # what is read may be somebody else's, and anything
        raise NotATree(f"no {getattr(kind, '__name__', kind)}: {_said(error)}") from None


def _said(error: Exception) -> str:
    return repr(error)[:200]


def _apart(value: object, path: str, tensors: Tensors) -> Json:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray | torch.Tensor):
        kind = "tensor" if isinstance(value, torch.Tensor) else "array"
        if path in tensors:
            raise NotATree(f"{path}: two arrays have the same path")
        tensors[path] = _as_tensor(value, path)
        return {kind: path}
    if is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: getattr(value, field.name) for field in fields(value)}
        return {"fields": {key: _apart(v, _join(path, key), tensors) for key, v in parts.items()}}
    if isinstance(value, Mapping):
        if not all(isinstance(key, str | int) for key in value):
            raise NotATree(f"{path or 'value'}: keys must be texts or whole numbers")
        return {"items": [[k, _apart(v, _join(path, k), tensors)] for k, v in value.items()]}
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [_apart(v, _join(path, i), tensors) for i, v in enumerate(value)]}
    raise NotATree(f"{path or 'value'}: a {type(value).__name__} cannot be written down")


def _join(path: str, key: object) -> str:
    return f"{path}/{key}" if path else str(key)


def _as_tensor(value: np.ndarray[Any, Any] | torch.Tensor, path: str) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().contiguous()
    try:
        return torch.from_numpy(np.require(value, requirements=["C", "W"]))
    except (TypeError, ValueError) as error:
        raise NotATree(f"{path or 'value'}: {error}") from None


def _together(kind: Any, node: Json, tensors: Mapping[str, torch.Tensor]) -> Any:
    if not isinstance(node, dict):
        if isinstance(node, list):
            raise NotATree("a list without its kind")
        return node
    ((tag, content),) = node.items()
    kind = _present(kind)
    if tag == "tensor":
        return tensors[content]
    if tag == "array":
        return tensors[content].numpy()
    if tag == "fields":
        origin = get_origin(kind) or kind
        if not (isinstance(origin, type) and is_dataclass(origin)):
            raise NotATree(f"{kind} has no fields {sorted(content)}")
        hints = _hints(origin)
        return origin(**{key: _together(hints[key], v, tensors) for key, v in content.items()})
    if tag == "items":
        inner = [*get_args(kind), Any, Any][1]
        return {key: _together(inner, v, tensors) for key, v in content}
    if tag in ("list", "tuple"):
        inner = [*get_args(kind), Any][0]
        parts = [_together(inner, v, tensors) for v in content]
        return parts if tag == "list" else tuple(parts)
    raise NotATree(f"{tag!r} is unknown")


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _present(kind: Any) -> Any:
    """X where the hint says X | None."""
    if get_origin(kind) in (Union, types.UnionType):
        some = [part for part in get_args(kind) if part is not type(None)]
        return some[0] if len(some) == 1 else Any
    return kind


def pack(value: object) -> bytes:
    """One record of bytes."""
    return pack_parts(*dismantle(value))


def pack_parts(tree: Json, tensors: Mapping[str, torch.Tensor]) -> bytes:
    """JSON and tensors as one record: length of the header, header, arrays one after the other."""
    table, bodies, offset = [], [], 0
    for name, tensor in tensors.items():
        body = bytes_of(tensor)
        padding = -len(body) % _ALIGNED
        table.append([name, str(tensor.dtype).removeprefix("torch."), list(tensor.shape), offset])
        bodies += [body, bytes(padding)]
        offset += len(body) + padding
    header = json.dumps({"tree": tree, "tensors": table}, separators=(",", ":")).encode()
    header += b" " * (-len(header) % _ALIGNED)
    return b"".join([len(header).to_bytes(_ALIGNED, "little"), header, *bodies])


def bytes_of(tensor: torch.Tensor) -> bytes:
    """The numbers of a tensor in main memory, one after the other."""
    return tensor.reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def unpack(kind: Any, record: bytes) -> Any:
    """The value of class `kind` in a record; its arrays have memory of their own."""
    tree, tensors = unpack_parts(record)
    return assemble(kind, tree, tensors)


def unpack_parts(record: bytes) -> tuple[Json, Tensors]:
    """JSON and tensors of a record; NotATree for bytes that are none.

    What is made is never larger than the record.
    """
    try:
        start = _ALIGNED + int.from_bytes(record[:_ALIGNED], "little")
        header = json.loads(record[_ALIGNED:start])
        body = bytearray(record[start:])  # writable, as torch wants it
        tensors = {
            name: _tensor(body, _dtype(dtype), shape, offset)
            for name, dtype, shape, offset in header["tensors"]
        }
        return header["tree"], tensors
    except Exception as error:  # as above
        raise NotATree(f"not a record: {_said(error)}") from None


def _dtype(name: str) -> torch.dtype:
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise NotATree(f"{name!r} is no type of numbers")
    return found


def _tensor(body: bytearray, dtype: torch.dtype, shape: list[int], offset: int) -> torch.Tensor:
    sizes = [size if type(size) is int and 0 <= size < 1 << 62 else None for size in shape]
    if None in sizes or len(sizes) > _MOST_AXES or type(offset) is not int:
        raise NotATree(f"{str(shape)[:80]} is no shape")
    count = math.prod(shape)
    if not count:
        return torch.empty(shape, dtype=dtype)
    if offset < 0 or offset + count * dtype.itemsize > len(body):
        raise NotATree("an array that is not all there")
    return torch.frombuffer(body, dtype=dtype, count=count, offset=offset).view(shape)

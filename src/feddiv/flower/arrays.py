"""Tensors in numpy's file format, one after the other, read without numpy's parser.

That one evaluates a header as Python: on a crafted header it raises nearly anything, or takes very
long. What is read here is one line of a fixed form, as all versions of numpy write it for plain
numbers in C order, and nothing is made that is larger than what came.
"""

import io
import math
import re
from collections.abc import Iterable
from typing import Final

import numpy as np
import torch

from feddiv.core.arrays import StateDict
from feddiv.core.terminal import NAME, shown
from feddiv.federation.reply_check import Refused

LONGEST_HEADER: Final = 1024  # bytes
SIGNED: Final = ("<f2", "<f4", "<f8", "|i1", "<i2", "<i4", "<i8")
NUMBERS: Final = (*SIGNED, "|u1", "<u2", "<u4", "<u8", "|b1")
HEADER: Final = re.compile(
    rb"\x93NUMPY\x01\x00(?P<length>[\x00-\xff]{2})"
    rb"\{'descr': '(?P<kind>[<|][fiub][1248])', 'fortran_order': False, "
    rb"'shape': \((?P<shape>|[0-9]{1,12},|[0-9]{1,12}(?:, [0-9]{1,12}){1,31})\), \} *\n"
)


def write_tensors(tensors: Iterable[torch.Tensor]) -> bytes:
    """The numbers of all of them."""
    written = io.BytesIO()
    for tensor in tensors:
        np.save(written, np.asarray(tensor.detach().cpu().numpy(), order="C"), allow_pickle=False)
    return written.getvalue()


def read_tensors(data: bytes, names: Iterable[str]) -> StateDict:
    """Tensors by these names in their order, each in memory of its own, and nothing else."""
    state: StateDict = {}
    start = 0
    for name in names:
        try:
            state[name], start = _read_tensor(data, start)
        except Refused as why:
            raise Refused(f"{shown(name, NAME)} {why}") from None
    if start != len(data):
        raise Refused(f"{len(data) - start:,} bytes too many")
    return state


def _read_tensor(data: bytes, begun: int) -> tuple[torch.Tensor, int]:
    """The one that begins there, and where it ends."""
    header = HEADER.match(data[begun : begun + LONGEST_HEADER])
    if header is None or header["kind"].decode() not in NUMBERS:
        raise Refused("is no array of plain numbers as numpy writes it")
    start, dtype = begun + header.end(), np.dtype(header["kind"].decode())
    shape = tuple(int(side) for side in header["shape"].split(b",") if side)
    whole = int.from_bytes(header["length"], "little") == header.end() - 10
    count = math.prod(shape)
    end = start + count * dtype.itemsize
    if not whole or end > len(data):
        raise Refused(f"says {dtype} {shape} and holds {len(data) - start:,} bytes")
    if dtype.kind == "b" and max(data[start:end], default=0) > 1:
        raise Refused("holds something else than true and false")
    numbers = np.frombuffer(data, dtype, count, start).reshape(shape)
    return torch.from_numpy(numbers.copy()), end

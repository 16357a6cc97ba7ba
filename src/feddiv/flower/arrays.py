"""Arrays in numpy's file format, as Flower carries them, read without numpy's parser.

That one evaluates a header as Python: on a crafted header it raises nearly anything, or takes very
long. What is read here is one line of a fixed form, as all versions of numpy write it for plain
numbers in C order, and nothing is made that is larger than what came.
"""

import math
import re
from typing import Final

import numpy as np
import torch

from feddiv.federation.reply_check import Refused

LONGEST_HEADER: Final = 1024  # bytes
SIGNED: Final = ("<f2", "<f4", "<f8", "|i1", "<i2", "<i4", "<i8")
NUMBERS: Final = (*SIGNED, "|u1", "<u2", "<u4", "<u8", "|b1")
HEADER: Final = re.compile(
    rb"\x93NUMPY\x01\x00(?P<length>[\x00-\xff]{2})"
    rb"\{'descr': '(?P<kind>[<|][fiub][1248])', 'fortran_order': False, "
    rb"'shape': \((?P<shape>|[0-9]{1,12},|[0-9]{1,12}(?:, [0-9]{1,12}){1,31})\), \} *\n"
)


def read_tensor(data: bytes) -> torch.Tensor:
    """The numbers, in memory of their own."""
    header = HEADER.match(data[:LONGEST_HEADER])
    if header is None or header["kind"].decode() not in NUMBERS:
        raise Refused("is no array of plain numbers as numpy writes it")
    start, dtype = header.end(), np.dtype(header["kind"].decode())
    shape = tuple(int(side) for side in header["shape"].split(b",") if side)
    whole = int.from_bytes(header["length"], "little") == start - 10
    if not whole or math.prod(shape) * dtype.itemsize != len(data) - start:
        raise Refused(f"says {dtype} {shape} and holds {len(data) - start:,} bytes")
    if dtype.kind == "b" and max(data[start:], default=0) > 1:
        raise Refused("holds something else than true and false")
    numbers = np.frombuffer(data, dtype, offset=start).reshape(shape)
    return torch.from_numpy(numbers.copy())

"""Whether an ONNX file has all its weights in itself: found out from its bytes.

The sha256 of a graph is that of its file. A tensor may say that its numbers lie in another file,
which onnxruntime looks for in the working directory where a graph is given as bytes: then they are
not part of the hash. Only the messages that can hold a tensor are walked through.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

VARINT, EIGHT_BYTES, MESSAGE, FOUR_BYTES = 0, 1, 2, 5  # how a field is written (wire types)
TENSOR: Final = "TensorProto"
LOW_BITS: Final = 0xFFFFFFFF  # all that readers look at of a number that is one of a few
LOCATION, OUTSIDE = 14, 1  # TensorProto.data_location, and its value EXTERNAL
# By message, the fields that are messages which may hold tensors (onnx.proto).
HELD: Final[dict[str, dict[int, str]]] = {
    "ModelProto": {7: "GraphProto", 20: "TrainingInfoProto", 25: "FunctionProto"},
    "GraphProto": {1: "NodeProto", 5: TENSOR, 15: "SparseTensorProto"},
    "FunctionProto": {7: "NodeProto", 11: "AttributeProto"},
    "TrainingInfoProto": {1: "GraphProto", 2: "GraphProto"},
    "NodeProto": {5: "AttributeProto"},
    "AttributeProto": {
        5: TENSOR,
        6: "GraphProto",
        10: TENSOR,
        11: "GraphProto",
        22: "SparseTensorProto",
        23: "SparseTensorProto",
    },
    "SparseTensorProto": {1: TENSOR, 2: TENSOR},
    TENSOR: {},
}


def has_outside_weights(content: bytes) -> bool:
    """Whether a tensor's numbers are in another file; ValueError where it is no ONNX."""
    waiting = [("ModelProto", memoryview(content))]
    while waiting:
        kind, message = waiting.pop()
        held = HELD[kind]
        for field, value in _fields(message):
            if isinstance(value, memoryview):
                if field in held:
                    waiting.append((held[field], value))
            elif kind == TENSOR and field == LOCATION and value & LOW_BITS == OUTSIDE:
                return True
    return False


def _fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Number and value of each field: a whole number or bytes."""
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        if key > LOW_BITS:
            raise ValueError("a field with too large a number")
        field, wire = key >> 3, key & 7
        if wire == VARINT:
            value, place = _varint(message, place)
            yield field, value
            continue
        if wire == MESSAGE:
            length, place = _varint(message, place)
        elif wire in (EIGHT_BYTES, FOUR_BYTES):
            length = 8 if wire == EIGHT_BYTES else 4
        else:
            raise ValueError(f"a field of wire type {wire}")
        if length > len(message) - place:
            raise ValueError("a field that is cut off")
        if wire == MESSAGE:
            yield field, message[place : place + length]
        place += length


def _varint(message: memoryview, place: int) -> tuple[int, int]:
    """A whole number, and where what follows it begins."""
    value = 0
    for shift in range(0, 70, 7):
        if place >= len(message):
            raise ValueError("a number that is cut off")
        byte = message[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
    raise ValueError("a number of more than ten bytes")

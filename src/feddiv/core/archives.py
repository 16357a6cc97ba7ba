"""Reading .npz and .npy files that somebody else may have written.

Of every array the header is looked at first: its type has to be a plain one, and its shape has to
need exactly the bytes that follow. Only then is memory asked for.
"""

import io
import math
import os
import warnings
import zipfile
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
import numpy.typing as npt

from feddiv.core.errors import UserError
from feddiv.core.given_files import open_regular
from feddiv.core.terminal import brief

Arrays = dict[str, npt.NDArray[Any]]

PLAIN: Final = "biufcSU"  # kinds of types: numbers and texts
DIMENSIONS: Final = 32
LONGEST_HEADER: Final = 10_000  # bytes
MEMBERS: Final = 1000
# No data shrinks like this: an archive that is small and unpacks to a lot was made to.
BOMB: Final = 1 << 30
SHRINKS: Final = 200
_CHUNK: Final = 1 << 20


def described(array: npt.NDArray[Any]) -> str:
    """Type and shape of an array, for errors."""
    return f"{array.dtype} {list(array.shape)}"


def read_npz(path: Path, what: str) -> Arrays:
    """All arrays of an .npz file, never unpickling; `what` names the file's role in errors."""
    if path.is_dir():
        raise UserError(f"{what} {path}: is a folder, an .npz file is needed")
    try:
        with open_regular(path) as file:
            if not zipfile.is_zipfile(file):
                raise UserError(f"{what} {path}: not an .npz file")
            with zipfile.ZipFile(file) as archive:
                return _members(archive, os.fstat(file.fileno()).st_size)
    except FileNotFoundError:
        raise UserError(f"{what} {path}: there is no such file") from None
    except UserError:
        raise
    except Exception as error:  # zipfile and numpy's parser raise whatever they stumble over
        raise UserError(f"{what} {path}: cannot be read ({_reason(error)})") from None


def read_npy(path: Path, what: str) -> npt.NDArray[Any]:
    """The array of an .npy file, in the same way."""
    try:
        with open_regular(path) as file:
            return _array(file, os.fstat(file.fileno()).st_size)
    except Exception as error:
        raise UserError(f"{what} {path}: cannot be read ({_reason(error)})") from None


def _reason(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return "it does not fit into memory"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    said = str(error).strip()
    return brief(said.splitlines()[0], 200) if said else type(error).__name__


def _members(archive: zipfile.ZipFile, size: int) -> Arrays:
    """The arrays of an archive whose file has so many bytes."""
    entries = archive.infolist()
    if len(entries) > MEMBERS:
        raise ValueError(f"it holds {len(entries):,} arrays, at most {MEMBERS:,} are read")
    whole = sum(entry.file_size for entry in entries)
    if whole > BOMB and whole > SHRINKS * size:
        raise ValueError(f"{size:,} bytes would unpack to {whole:,}")
    arrays: Arrays = {}
    for entry in entries:
        name = entry.filename.removesuffix(".npy")
        if name == entry.filename:
            raise ValueError(f"{name!r} is not an array")
        if name in arrays:
            raise ValueError(f"{name!r} is there twice")
        with archive.open(entry) as member:
            try:
                arrays[name] = _array(member, entry.file_size)
            except (ValueError, TypeError, OverflowError) as error:
                raise ValueError(f"{name!r}: {_reason(error)}") from None
    return arrays


def _array(file: IO[bytes], size: int) -> npt.NDArray[Any]:
    """The array in a stream of so many bytes, .npy header included."""
    shape, fortran, dtype, used = _header(file)
    if dtype.kind not in PLAIN or dtype.itemsize == 0 or dtype.subdtype is not None:
        raise ValueError(f"its type is {dtype}; allowed are numbers and texts")
    if len(shape) > DIMENSIONS or not all(type(side) is int and side >= 0 for side in shape):
        raise ValueError(f"its header has the shape {brief(str(shape), 100)}")
    if math.prod(shape) * dtype.itemsize != size - used:
        raise ValueError(
            f"its header says {dtype} {brief(str(list(shape)), 100)}, and {size - used:,} bytes "
            "follow"
        )
    flat = np.empty(math.prod(shape), dtype)
    _fill(file, flat)
    if dtype.kind == "U":
        _check_text(flat)
    return flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Shape, order, type, and the bytes that said so."""
    start = file.read(12)
    if start[:6] != b"\x93NUMPY":
        raise ValueError("it is no .npy file")
    counts = {b"\x01\x00": 2, b"\x02\x00": 4, b"\x03\x00": 4}  # bytes of the header's length
    width = counts.get(start[6:8])
    if width is None or len(start) < 12:
        raise ValueError("it is cut off, or of an unknown version")
    length = int.from_bytes(start[8 : 8 + width], "little")
    if length > LONGEST_HEADER:
        raise ValueError(f"its header has {length:,} bytes")
    text = start[8 + width :] + file.read(length - (4 - width))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about headers of old versions
            # A stream of the header alone: numpy has the one parser of it.
            shape, fortran, dtype = np.lib.format.read_array_header_2_0(
                _stream(text), max_header_size=LONGEST_HEADER
            )
    except Exception as error:  # its parser raises much more than it says
        raise ValueError(f"its header is damaged ({type(error).__name__})") from None
    return shape, fortran, dtype, 8 + width + length


def _stream(header: bytes) -> IO[bytes]:
    return io.BytesIO(len(header).to_bytes(4, "little") + header)


def _fill(file: IO[bytes], flat: npt.NDArray[Any]) -> None:
    content = flat.view(np.uint8).data if flat.size else memoryview(b"")
    done = 0
    while done < len(content):
        chunk = file.read(min(_CHUNK, len(content) - done))
        if not chunk:
            raise ValueError("it is cut off")
        content[done : done + len(chunk)] = chunk
        done += len(chunk)
    file.read(1)  # to the end of a member, where its checksum is compared


def _check_text(flat: npt.NDArray[Any]) -> None:
    """Refuse what is no Unicode: other programs can write any number for a character."""
    codes = flat.view(np.dtype("u4").newbyteorder(flat.dtype.byteorder))
    surrogate = (codes >= 0xD800) & (codes <= 0xDFFF)
    if ((codes > 0x10FFFF) | surrogate).any():
        raise ValueError("it holds text that is no Unicode")

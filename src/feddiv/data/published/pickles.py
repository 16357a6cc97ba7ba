"""The one place that unpickles: published data that exist only as pickles.

A pickle may name any importable function and have it called. This reader knows numpy arrays and
plain containers; whatever else a file names is refused before it is looked up. Weights saved by
torch go through torch's own restricted reader, which knows tensors and plain containers.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import re
import warnings
import zipfile
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from feddiv.core.errors import UserError


def _encode(text: str, codec: str) -> bytes:
    """Bytes as python 3 writes them in old pickle protocols; no other codec is ever looked up."""
    if codec != "latin1":
        raise pickle.UnpicklingError(f"bytes written with codec {codec!r}")
    return text.encode("latin1")


def _from_buffer(
    content: bytes, kind: Any, shape: Any, order: Any, axes: Any = None
) -> npt.NDArray[Any]:
    """An array of pickle protocol 5; numpy's own helper for it is private and moves."""
    array: npt.NDArray[Any] = np.frombuffer(content, dtype=kind)
    if axes is not None:
        return array.reshape(shape).transpose(axes)
    return array.reshape(shape, order=order)


def _allowed() -> dict[tuple[str, str], Any]:
    table: dict[tuple[str, str], Any] = {
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
        ("_codecs", "encode"): _encode,
    }
    for numpy_core in ("numpy.core", "numpy._core"):  # before numpy 2, and since
        table[f"{numpy_core}.multiarray", "_reconstruct"] = np.zeros(1).__reduce__()[0]
        table[f"{numpy_core}.multiarray", "scalar"] = np.float64(0).__reduce__()[0]
        table[f"{numpy_core}.numeric", "_frombuffer"] = _from_buffer
    for builtins in ("__builtin__", "builtins"):
        for kind in (set, frozenset, bytearray, complex):
            table[builtins, kind.__name__] = kind
    return table


_ALLOWED: Final = _allowed()


class _Refused(Exception):
    """A global that is not on the list."""


class _ArraysOnly(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise _Refused(f"{module}.{name}") from None


def read_pickle(path: Path, encoding: str = "ASCII", md5: str | None = None) -> Any:
    """The arrays and plain containers in a pickle file, also in the zip that torch.save writes.

    `encoding` is for strings of python 2 ("latin1", or "bytes" to keep them raw). With `md5` the
    content is compared first, and nothing of a file that differs is read.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise UserError(f"{path}: there is no such file") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    if md5 is not None:
        found = hashlib.md5(content, usedforsecurity=False).hexdigest()
        if found != md5:
            raise UserError(
                f"{path}: wrong checksum (md5 {found}, expected {md5}); "
                "the file is damaged or another one, unpack or download it again"
            )
    try:
        return _ArraysOnly(io.BytesIO(_pickle_in(content)), encoding=encoding).load()
    except _Refused as refused:
        raise UserError(
            f"{path}: refused, the pickle asks for {refused}; "
            "only numpy arrays and plain containers are read"
        ) from None
    except Exception as error:  # a damaged pickle can raise nearly anything
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(f"{path}: not a readable pickle ({reason})") from None


def read_torch_weights(content: bytes) -> dict[str, torch.Tensor]:
    """The state dict in what `torch.save` wrote, or in the `state_dict` of a larger checkpoint.

    Raises ValueError, with the reason, for anything else.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about how it was pickled: it is read or it is not
            found = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        asked = re.search(r"GLOBAL (\S+)", str(error))
        reason = f"it asks for {asked[1]}" if asked else "it is no pickle of tensors"
        raise ValueError(f"refused, {reason}; only tensors are read") from None
    except Exception as error:  # a damaged archive can raise nearly anything
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"not readable as weights ({reason})") from None
    if isinstance(found, dict) and isinstance(found.get("state_dict"), dict):
        found = found["state_dict"]
    if not isinstance(found, dict) or not found:
        raise ValueError(f"holds a {type(found).__name__}, not a state dict of named tensors")
    for key, value in found.items():
        if not isinstance(key, str) or not isinstance(value, torch.Tensor):
            raise ValueError(f"no state dict: {key!r} is a {type(value).__name__}, not a tensor")
    return dict(found)


def _pickle_in(content: bytes) -> bytes:
    """The pickle itself; torch.save wraps it in a zip, beside tensors that are never read.

    It stores without compression, so that what is unpacked is never larger than the file.
    """
    if not content.startswith(b"PK"):
        return content
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        inside = [member for member in archive.infolist() if member.filename.endswith("/data.pkl")]
        if len(inside) != 1:
            raise pickle.UnpicklingError(f"a zip with {len(inside)} members called data.pkl")
        if inside[0].compress_type != zipfile.ZIP_STORED:
            raise pickle.UnpicklingError("a compressed zip, which torch.save does not write")
        return archive.read(inside[0])

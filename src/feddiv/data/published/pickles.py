"""The one place that unpickles: published data that exist only as pickles.

A pickle may name any importable function and have it called. Here it is read as data by a machine
of our own (`plain_pickle.py`), which knows arrays of numbers and plain containers; whatever else a
file names is refused, and nothing is looked up. Weights saved by torch go through torch's own
restricted reader, which knows tensors and plain containers.
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

import torch

from feddiv.core.errors import UserError, in_one_line
from feddiv.core.files import Unreadable, read_regular
from feddiv.data.published.pickle_values import Damaged
from feddiv.data.published.plain_pickle import NotPlain, read_plain

LARGEST: Final = 1 << 29  # bytes: CIFAR-100's training file has 155 million


def read_pickle(path: Path, encoding: str = "ASCII", md5: str | None = None) -> Any:
    """The arrays and plain containers in a pickle file, also in the zip that torch.save writes.

    `encoding` is for strings of python 2 ("latin1", or "bytes" to keep them raw). With `md5` the
    content is compared first, and nothing of a file that differs is read. Arrays cannot be written
    to: they lie in what was read.
    """
    try:
        content = read_regular(path, LARGEST)
    except Unreadable as problem:
        raise UserError(f"{path}: {problem}") from None
    if md5 is not None:
        found = hashlib.md5(content, usedforsecurity=False).hexdigest()
        if found != md5:
            raise UserError(
                f"{path}: wrong checksum (md5 {found}, expected {md5}); "
                "the file is damaged or another one, unpack or download it again"
            )
    try:
        return read_plain(_pickle_in(content), encoding)
    except NotPlain as refused:
        raise UserError(
            f"{path}: refused, the pickle asks for {refused}; "
            "only arrays of numbers and plain containers are read"
        ) from None
    except Damaged as problem:
        raise UserError(f"{path}: not a readable pickle ({problem})") from None


def read_torch_weights(content: bytes) -> dict[str, torch.Tensor]:
    """The state dict in what `torch.save` wrote, or in the `state_dict` of a larger checkpoint.

    Raises ValueError, with the reason, for anything else.
    """
    try:
        _check_stored(content)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about how it was pickled: it is read or it is not
            found = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        asked = re.search(r"GLOBAL (\S+)", str(error))
        reason = f"it asks for {asked[1]}" if asked else "it is no pickle of tensors"
        raise ValueError(f"refused, {reason}; only tensors are read") from None
    except Exception as error:  # a damaged archive can raise nearly anything
        raise ValueError(f"not readable as weights ({in_one_line(error)[:200]})") from None
    if isinstance(found, dict) and isinstance(found.get("state_dict"), dict):
        found = found["state_dict"]
    if not isinstance(found, dict) or not found:
        raise ValueError(f"holds a {type(found).__name__}, not a state dict of named tensors")
    for key, value in found.items():
        if not isinstance(key, str) or not isinstance(value, torch.Tensor):
            raise ValueError(f"no state dict: {key!r} is a {type(value).__name__}, not a tensor")
    return dict(found)


def _check_stored(content: bytes) -> None:
    """Refuse a zip that unpacks to more than it is: torch.save stores without compression."""
    if not content.startswith(b"PK"):
        return
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = archive.infolist()
    if any(member.compress_type != zipfile.ZIP_STORED for member in members):
        raise Damaged("a compressed zip, which torch.save does not write")
    if sum(member.file_size for member in members) > len(content):
        raise Damaged("a zip whose members overlap")


def _pickle_in(content: bytes) -> bytes:
    """The pickle itself; torch.save wraps it in a zip, beside tensors that are never read.

    It stores without compression, so that what is unpacked is never larger than the file.
    """
    if not content.startswith(b"PK"):
        return content
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            inside = [each for each in archive.infolist() if each.filename.endswith("/data.pkl")]
            if len(inside) != 1:
                raise Damaged(f"a zip with {len(inside)} members called data.pkl")
            if inside[0].compress_type != zipfile.ZIP_STORED:
                raise Damaged("a compressed zip, which torch.save does not write")
            return archive.read(inside[0])
    except Damaged:
        raise
    except Exception as error:  # a damaged archive can raise nearly anything
        raise Damaged(in_one_line(error)[:200]) from None

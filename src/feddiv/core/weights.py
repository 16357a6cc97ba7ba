"""Weights that somebody published, from their files; the one place that unpickles them.

What `torch.save` wrote goes through torch's own restricted reader, which knows tensors and plain
containers.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import re
import warnings
import zipfile
from pathlib import Path
from typing import Final

import torch
from safetensors import SafetensorError

from feddiv.core.errors import UserError, in_one_line
from feddiv.core.given_files import at_home, read_given

MOST: Final = 16 << 30  # bytes of a file of weights
MODEL: Final = "model.weights"
FROM_SCRATCH: Final = "; name one with published weights, or none to start from scratch"


def read_weights(
    path: Path, sha256: str | None = None, key: str = MODEL
) -> dict[str, torch.Tensor]:
    """The named tensors of a safetensors file, or of one that `torch.save` wrote.

    With `sha256` the content is compared first, and nothing of a file that differs is read. `key`
    is the setting that names it, for errors.
    """
    from safetensors.torch import load  # it loads torch

    content = weights_content(path, key)
    found = hashlib.sha256(content).hexdigest()
    if sha256 is not None and found != sha256.lower():
        raise UserError(f"{key}={path}: is not the file of this run (sha256 {found}, not {sha256})")
    # Its header, JSON, follows eight bytes that give the header's length.
    if content[8:9] == b"{":
        try:
            return load(content)
        except (SafetensorError, ValueError) as error:
            raise UserError(f"{key}={path}: damaged safetensors ({error})") from None
    try:
        return read_torch_weights(content)
    except ValueError as error:
        raise UserError(f"{key}={path}: {error}") from None


def weights_sha256(path: Path, key: str = MODEL) -> str:
    """sha256 (hex) of the file."""
    return hashlib.sha256(weights_content(path, key)).hexdigest()


def weights_content(path: Path, key: str) -> bytes:
    """The file as bytes; `key` is the setting that names it, for errors."""
    hint = FROM_SCRATCH if key == MODEL else ""
    try:
        return read_given(at_home(path), MOST)
    except MemoryError:
        raise UserError(f"{key}={path}: does not fit into memory") from None
    except FileNotFoundError:
        raise UserError(f"{key}={path}: there is no such file{hint}") from None
    except OSError as error:
        raise UserError(f"{key}={path}: cannot be read ({error.strerror})") from None


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
        raise ValueError("a compressed zip, which torch.save does not write")
    if sum(member.file_size for member in members) > len(content):
        raise ValueError("a zip whose members overlap")

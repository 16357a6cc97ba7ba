"""Files that are written whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from feddiv.core.given_files import check_regular, read_given
from feddiv.core.toml import DEEPEST
from feddiv.core.trees import bytes_of


class Unreadable(ValueError):
    """A file that is not what it should be, and why."""


def read_regular(path: Path, largest: int) -> bytes:
    """The bytes of a file that may be somebody else's: no pipe or device, none that is too large.

    A pipe would be waited for, and a device may never end.
    """
    with _readable():
        return read_given(path, largest)


@contextmanager
def _readable() -> Iterator[None]:
    """What cannot be opened or is too large is unreadable."""
    try:
        yield
    except FileNotFoundError:
        raise Unreadable("there is no such file") from None
    except OSError as error:
        raise Unreadable(f"cannot be read ({error.strerror or error})") from None


def save_tensors(
    path: Path, tensors: Mapping[str, torch.Tensor], header: Mapping[str, str] | None = None
) -> None:
    """Write safetensors; the file is replaced at once, as `write_bytes` does it.

    `safetensors.save_file` writes to a file of a random name first, which a kill would leave.
    """
    from safetensors.torch import save  # it loads torch

    whole, seen = {}, set()
    for name, tensor in tensors.items():
        plain = tensor.contiguous()
        # The format has no way to say that two names share memory: the second gets its own.
        whole[name] = plain.clone() if plain.data_ptr() in seen else plain
        seen.add(plain.data_ptr())
    write_bytes(path, save(whole, metadata=dict(header or {})))


def load_tensors(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """Tensors and header of a safetensors file; Unreadable for anything else."""
    with _readable():
        check_regular(path)
    try:
        with safe_open(path, framework="pt") as opened:
            header = dict(opened.metadata() or {})
            return {key: opened.get_tensor(key) for key in opened.keys()}, header  # noqa: SIM118
    except Exception as error:  # it may be somebody else's file, and anything
        raise Unreadable(f"cannot be read as safetensors: {str(error)[:200]}") from None


def read_json(path: Path, largest: int) -> dict[str, Any]:
    """An object in a JSON file that may be somebody else's; Unreadable for anything else."""
    return json_object(read_regular(path, largest))


def json_object(text: str | bytes) -> dict[str, Any]:
    """A JSON object; Unreadable for anything else, such as lists that are nested without end."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError, MemoryError) as error:
        raise Unreadable(f"is damaged ({str(error)[:200]})") from None
    if not isinstance(found, dict):
        raise Unreadable(f"is damaged (holds a {type(found).__name__}, no object)")
    if _is_deep(found):  # whoever goes through it would get stuck
        raise Unreadable(f"is damaged (it is nested more than {DEEPEST} levels deep)")
    return found


def _is_deep(tree: dict[str, Any]) -> bool:
    level: list[Any] = [tree]
    for _ in range(DEEPEST):
        inner = (each.values() if isinstance(each, dict) else each for each in level)
        level = [each for values in inner for each in values if isinstance(each, dict | list)]
        if not level:
            return False
    return True


def _temporary(path: Path) -> Path:
    """Where to write what is to get this name; what is left there is no file to write into."""
    temporary = path.with_name(path.name + ".part")
    temporary.unlink(missing_ok=True)  # a link would be followed
    return temporary


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Replace the file by JSON that people can read."""
    write_text(path, json.dumps(value, indent=2) + "\n")


def write_text(path: Path, text: str) -> None:
    """Replace the file at once: a reader sees the old one or the new one."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """The same for bytes; where writing fails, nothing is left beside the old file."""
    temporary = _temporary(path)
    try:
        temporary.write_bytes(content)
        settle(temporary)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    settle(path.parent)


class Lock:
    """A lock on a folder or file that a process holds; it is gone with it, however it ends."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def of(cls, path: Path, *, wait: bool = False) -> Lock | None:
        """The lock; where another process has it None, or the lock once that has let it go."""
        try:
            import fcntl
        except ImportError:  # Windows: no such lock
            return cls(-1)
        descriptor = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except OSError:
            os.close(descriptor)
            return None
        return cls(descriptor)

    def is_of(self, path: Path) -> bool:
        """Whether the path still leads to what is locked; another may have got its name since."""
        if self._descriptor < 0:
            return True
        try:
            return os.path.samestat(os.fstat(self._descriptor), os.stat(path))
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Give it back."""
        if self._descriptor >= 0:
            os.close(self._descriptor)


def settle(path: Path) -> None:
    """Wait until a file, or the list of files of a folder, is on the disk."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        if path.is_dir():  # Windows does not open folders
            return
        raise
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def tensors_hash(tensors: Mapping[str, torch.Tensor]) -> str:
    """SHA-256 of names, types, shapes and bytes."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(bytes_of(tensor))
    return digest.hexdigest()

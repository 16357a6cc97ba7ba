"""What simulated clients remember, whatever the method keeps: one record of bytes for each.

Nets that a method keeps per client are too big for that: they are files, one per client and visit,
and the record names them.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from feddiv.core.arrays import StateDict
from feddiv.core.files import Unreadable, load_tensors, save_tensors, tensors_hash
from feddiv.core.trees import NotATree, Tensors, assemble, dismantle, pack_parts, unpack_parts
from feddiv.privacy.noise import NoiseMemory

ARENA, PLACES = "arena", "places"
NOISE = "noise of uploads"
NAME = re.compile(r"[^./\\\0][^/\\\0]*\.safetensors")
CHECKSUM = 16  # hex digits of it in the name of a file


class ModelFiles:
    """Models as files that are named after what they are and after their checksum."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, label: str, model: StateDict) -> str:
        """Write a model; its name comes back."""
        name = f"{label}-{tensors_hash(model)[:CHECKSUM]}.safetensors"
        self.folder.mkdir(parents=True, exist_ok=True)
        save_tensors(self.folder / name, model)
        return name

    def get(self, name: str) -> StateDict:
        """Read a model; the name may come out of a file of somebody else's."""
        return load_tensors(self.folder / plain_name(name))[0]


def plain_name(name: object) -> str:
    """The name of a model's file in a folder, and of none elsewhere."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        said = name[:80] if isinstance(name, str) else type(name).__name__
        raise Unreadable(f"refers to {said!r}, which is no name of a model's file")
    return name


class MemoryRecords:
    """Memories of one method as records; tensors among them go to files in `folder`."""

    def __init__(self, kind: Any, folder: Path | None) -> None:
        self.kind, self.folder = kind, folder

    def write(self, memory: object, visit: str, noise: NoiseMemory | None = None) -> bytes:
        """The record of a memory; its file, if any, is named after the visit and its checksum.

        `noise` is what the client remembers beside the method's memory, where it adds noise.
        """
        tree, tensors = dismantle(memory)
        nets = {name: tensors.pop(name) for name in _net_names(tree) if name in tensors}
        file = ""
        if nets and self.folder is not None:
            file = ModelFiles(self.folder).put(visit, nets)
        content = {"tree": tree, "file": file}
        if noise is not None:
            content[NOISE], drawn = dismantle(noise, NOISE)
            tensors |= drawn
        return pack_parts(content, tensors if file else {**tensors, **nets})

    def read(self, record: bytes | None) -> Any:
        """The memory of a record; None at a client's first visit."""
        if record is None:
            return None
        content, tensors = _content(record)
        if content["file"]:
            assert self.folder is not None
            tensors |= ModelFiles(self.folder).get(content["file"])
        return assemble(self.kind, content["tree"], tensors)

    def noise(self, record: bytes | None) -> NoiseMemory:
        """What a record says of the noise that the client added."""
        if record is None:
            return NoiseMemory()
        content, tensors = _content(record)
        kept = content.get(NOISE)
        return NoiseMemory() if kept is None else assemble(NoiseMemory, kept, tensors)

    def file_of(self, record: bytes) -> str:
        """The file that a record refers to, or an empty text."""
        file: str = _content(record)[0]["file"]
        return file


def _content(record: bytes) -> tuple[dict[str, Any], Tensors]:
    """A record's tree and file, which may be of somebody else's checkpoint, and its arrays."""
    content, tensors = unpack_parts(record)
    if not isinstance(content, dict) or content.keys() - {NOISE} != {"tree", "file"}:
        raise NotATree("not a record of a memory")
    if content["file"] != "":
        plain_name(content["file"])
    return content, tensors


def _net_names(tree: Any) -> list[str]:
    """Paths of the tensors (not arrays) in a tree taken apart."""
    if isinstance(tree, Mapping):
        inner = [name for value in tree.values() for name in _net_names(value)]
        return [*inner, tree["tensor"]] if isinstance(tree.get("tensor"), str) else inner
    return [name for value in tree for name in _net_names(value)] if isinstance(tree, list) else []


class MemoryStore:
    """Records by client. What is staged counts only after `commit`, when its exchange is over."""

    def __init__(self) -> None:
        self._records: dict[int, bytes] = {}
        self._staged: dict[int, bytes] = {}

    def get(self, client: int) -> bytes | None:
        """The client's record as of the last commit; None where it remembers nothing."""
        return self._records.get(client) or None

    def stage(self, client: int, record: bytes) -> None:
        """Remember this from the next commit on."""
        self._staged[client] = record

    def commit(self) -> None:
        """The exchange is over: what was staged holds."""
        self._records |= self._staged
        self._staged = {}

    def discard(self) -> None:
        """The exchange is given up: what was staged never was."""
        self._staged = {}

    def tensors(self) -> Tensors:
        """The committed records one after the other, and per client where its own lies."""
        places = np.zeros((max(self._records, default=-1) + 1, 3), np.int64)  # start, length, room
        start = 0
        for client, record in self._records.items():
            places[client] = (start, len(record), len(record))
            start += len(record)
        arena = np.frombuffer(bytearray().join(self._records.values()), np.uint8)
        return {ARENA: torch.from_numpy(arena), PLACES: torch.from_numpy(places)}

    def restore(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Become the store that was saved."""
        self._records = saved_records(tensors)
        self._staged = {}

    def clients(self) -> list[int]:
        """Those who remember something."""
        return sorted(client for client, record in self._records.items() if record)


def saved_records(tensors: Mapping[str, torch.Tensor]) -> dict[int, bytes]:
    """The records of a store that was saved, by client."""
    arena, places = tensors.get(ARENA), tensors.get(PLACES)
    if arena is None or arena.dtype != torch.uint8 or arena.dim() != 1:
        raise Unreadable("holds no memories of its clients")
    if places is None or places.dtype != torch.int64 or places.dim() != 2 or places.shape[1] != 3:
        raise Unreadable("does not say where its clients' memories are")
    found, room = {}, len(arena)
    for client, (start, length, _) in enumerate(places.tolist()):
        if not length:
            continue
        room -= length  # records that share bytes would make more than there is
        if start < 0 or length < 0 or start + length > len(arena) or room < 0:
            raise Unreadable(f"has the memory of client {client} where there is none")
        found[client] = arena[start : start + length].numpy().tobytes()
    return found

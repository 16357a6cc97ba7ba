"""What simulated clients remember: one compact store for all of them.

A client's memory is a record of bytes in one arena, whatever the method keeps in it, so ten
thousand clients are two index arrays and not ten thousand objects. Nets that a method keeps per
client are too big for that: they are files, one per client and visit, and the record names them.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from feddiv.core.arrays import StateDict
from feddiv.core.files import load_tensors, save_tensors, tensors_hash
from feddiv.core.trees import Tensors, assemble, dismantle, pack_parts, unpack_parts

ARENA, PLACES = "arena", "places"
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
        """Read a model."""
        return load_tensors(self.folder / name)[0]


class MemoryRecords:
    """Memories of one method as records; tensors among them go to files in `folder`."""

    def __init__(self, kind: Any, folder: Path | None) -> None:
        self.kind, self.folder = kind, folder

    def write(self, memory: object, visit: str) -> bytes:
        """The record of a memory; its file, if any, is named after the visit and its checksum."""
        tree, tensors = dismantle(memory)
        nets = {name: tensors.pop(name) for name in _net_names(tree) if name in tensors}
        file = ""
        if nets and self.folder is not None:
            file = ModelFiles(self.folder).put(visit, nets)
        return pack_parts({"tree": tree, "file": file}, tensors if file else {**tensors, **nets})

    def read(self, record: bytes | None) -> Any:
        """The memory of a record; None at a client's first visit."""
        if record is None:
            return None
        content, tensors = unpack_parts(record)
        if content["file"]:
            assert self.folder is not None
            tensors |= ModelFiles(self.folder).get(content["file"])
        return assemble(self.kind, content["tree"], tensors)

    def file_of(self, record: bytes) -> str:
        """The file that a record refers to, or an empty text."""
        return str(unpack_parts(record)[0]["file"])


def _net_names(tree: Any) -> list[str]:
    """Paths of the tensors (not arrays) in a tree taken apart."""
    if isinstance(tree, Mapping):
        inner = [name for value in tree.values() for name in _net_names(value)]
        return [*inner, tree["tensor"]] if isinstance(tree.get("tensor"), str) else inner
    return [name for value in tree for name in _net_names(value)] if isinstance(tree, list) else []


class MemoryStore:
    """Records by client. What is staged counts only after `commit`, when its exchange is over."""

    def __init__(self) -> None:
        self._arena = np.zeros(0, np.uint8)
        self._places = np.zeros((0, 3), np.int64)  # per client: start, length, room
        self._used = 0  # bytes of the arena that were ever given away
        self._staged: dict[int, bytes] = {}

    def get(self, client: int) -> bytes | None:
        """The client's record as of the last commit."""
        if not 0 <= client < len(self._places) or not self._places[client, 1]:
            return None
        start, length, _ = self._places[client]
        return self._arena[start : start + length].tobytes()

    def stage(self, client: int, record: bytes) -> None:
        """Remember this from the next commit on."""
        self._staged[client] = record

    def commit(self) -> None:
        """The exchange is over: what was staged holds."""
        for client, record in self._staged.items():
            self._put(client, record)
        self._staged.clear()

    def discard(self) -> None:
        """The exchange is given up: what was staged never was."""
        self._staged.clear()

    def _put(self, client: int, record: bytes) -> None:
        if client >= len(self._places):
            more = max(client + 1 - len(self._places), len(self._places))
            self._places = np.concatenate([self._places, np.zeros((more, 3), np.int64)])
        if len(record) > self._places[client, 2]:
            self._places[client] = (self._room(client, len(record)), 0, len(record))
        start = int(self._places[client, 0])
        self._arena[start : start + len(record)] = np.frombuffer(record, np.uint8)
        self._places[client, 1] = len(record)

    def _room(self, client: int, length: int) -> int:
        """Where `length` bytes are free; when half of the arena is waste it is packed anew."""
        self._places[client] = 0
        live = int(self._places[:, 2].sum())
        if self._used + length > len(self._arena):
            old, places = self._arena, self._places
            self._arena = np.zeros(max(2 * (live + length), 1 << 16), np.uint8)
            self._used = 0
            for place in places[places[:, 2] > 0]:
                self._arena[self._used : self._used + place[2]] = old[
                    place[0] : place[0] + place[2]
                ]
                self._used += int(place[2])
            starts = np.cumsum(places[:, 2]) - places[:, 2]
            places[:, 0] = np.where(places[:, 2] > 0, starts, 0)
        start, self._used = self._used, self._used + length
        return start

    def tensors(self) -> Tensors:
        """The committed store as two tensors, for a checkpoint."""
        return {
            ARENA: torch.from_numpy(self._arena[: self._used].copy()),
            PLACES: torch.from_numpy(self._places.copy()),
        }

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Become the store that was saved."""
        self._arena = tensors[ARENA].numpy().copy()
        self._places = tensors[PLACES].numpy().copy()
        self._used = len(self._arena)
        self._staged.clear()

    def clients(self) -> list[int]:
        """Those who remember something."""
        return [int(client) for client in np.flatnonzero(self._places[:, 1])]

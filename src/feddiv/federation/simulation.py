"""What the federations on one machine have in common: all clients' data, and their memories."""

from pathlib import Path

import torch

from feddiv.core.arrays import StateDict, Weights
from feddiv.core.interrupts import allowed
from feddiv.core.randomness import Streams
from feddiv.core.trees import Tensors
from feddiv.data.scaling import Scaling
from feddiv.federation.client_memory import MemoryRecords, MemoryStore
from feddiv.federation.federation import Federation
from feddiv.federation.workspace import Workspace
from feddiv.methods.contract import Facts
from feddiv.nets.compute import keep_freed_memory


class Simulation(Federation):
    """Clients that live where the loop lives. `folder` is for nets that clients keep."""

    def __init__(self, workspace: Workspace, folder: Path | None = None) -> None:
        torch.set_num_threads(1)  # more would change the bits, and be slower on small batches
        keep_freed_memory()
        self.workspace = workspace
        self.records = MemoryRecords(workspace.method.Memory, folder)
        self.memories = MemoryStore()
        dataset, draw = workspace.dataset, workspace.draw
        sizes = {client: len(part) for client, part in enumerate(draw.parts)}
        self._facts = Facts(dataset.classes, dataset.input_shape, sizes, draw.iid)

    @property
    def facts(self) -> Facts:
        """All clients of the draw."""
        return self._facts

    def make_model(self, name: str, rng: Streams) -> StateDict:
        """Freshly initialised weights."""
        return self.workspace.make_model(name, rng)

    def standardise(self, scaling: Scaling) -> None:
        """In all clients at once: they share their data."""
        self.scaling = scaling
        self.workspace.standardise(scaling)

    def outputs_finite(self, weights: Weights) -> bool:
        """Tried in this process."""
        with allowed():
            return self.workspace.outputs_finite(weights)

    def accept(self, client: int, memory: bytes) -> None:
        """Keep the record of the client's next memory, once the exchange is over."""
        self.memories.stage(client, memory)

    def commit(self) -> None:
        """The exchange is over."""
        self.memories.commit()

    def discard(self) -> None:
        """The exchange is given up."""
        self.memories.discard()

    def save(self) -> Tensors:
        """The clients' part of a checkpoint."""
        return self.memories.tensors()

    def restore(self, tensors: Tensors) -> None:
        """Go on from a checkpoint."""
        self.memories.restore(tensors)

    def files(self) -> list[str]:
        """Files that the clients' memories refer to."""
        if self.records.folder is None or not self.records.folder.is_dir():
            return []
        found = (self.memories.get(client) for client in self.memories.clients())
        return sorted({self.records.file_of(record) for record in found if record} - {""})

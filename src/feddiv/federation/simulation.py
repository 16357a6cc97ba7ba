"""What the federations on one machine have in common: all clients' data, and their memories."""

from pathlib import Path
from typing import Any

import torch

from feddiv.core.arrays import StateDict
from feddiv.core.randomness import Streams
from feddiv.core.trees import Tensors
from feddiv.federation.client_memory import MemoryRecords, MemoryStore
from feddiv.federation.workspace import Workspace
from feddiv.methods.contract import Facts, Message, Visit
from feddiv.methods.held_out_counts import KIND, examined
from feddiv.nets.compute import keep_freed_memory


class Simulation:
    """Clients that live where the loop lives. `folder` is for nets that clients keep."""

    def __init__(self, workspace: Workspace, folder: Path | None = None) -> None:
        torch.set_num_threads(1)  # more would change the bits, and be slower on small batches
        keep_freed_memory()
        self.workspace = workspace
        self.records = MemoryRecords(workspace.method.Memory, folder)
        self.memories = MemoryStore()
        dataset, draw = workspace.dataset, workspace.draw
        sizes = {client: len(part) for client, part in enumerate(draw.parts)}
        self.facts = Facts(dataset.classes, dataset.input_shape, sizes, draw.iid)

    def make_model(self, name: str, rng: Streams) -> StateDict:
        """Freshly initialised weights."""
        return self.workspace.make_model(name, rng)

    def accept(self, client: int, memory: bytes) -> None:
        """Keep the record of the client's next memory, once the exchange is over."""
        self.memories.stage(client, memory)

    def refuse(self, client: int, reason: str) -> str:
        """The client's number is in the journal anyway."""
        return reason

    def commit(self) -> None:
        """The exchange is over."""
        self.memories.commit()

    def discard(self) -> None:
        """The exchange is given up."""
        self.memories.discard()

    def newcomers(self) -> dict[int, int]:
        """Nobody: all clients are there from the start."""
        return {}

    def enough(self, answered: int, asked: int) -> bool:
        """Always: who does not answer here will not do so next time either."""
        return True

    def mark(self) -> None:
        """Nothing, as no round is given up."""

    def rewind(self, mark: None) -> None:
        """Never called."""
        raise NotImplementedError("rounds of simulated clients always count")

    def regroup(self, failures: int) -> None:
        """Never called."""
        raise NotImplementedError("rounds of simulated clients always count")

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

    def close(self) -> None:
        """Nothing to let go of."""


def make_visit(
    workspace: Workspace,
    records: MemoryRecords,
    message: Message,
    record: bytes | None,
    rng: Streams,
) -> Visit[Any]:
    """One visit to the client of `rng`; its memory comes and goes as a record."""
    client = workspace.client(rng.client)
    if message.kind == KIND:
        reply, diary = examined(workspace.method, client, records.read(record), message)
        return Visit(reply, b"", diary)  # its memory stays as it was: nothing to send back
    visit = workspace.method.visit(client, records.read(record), message, rng)
    name = f"{rng.client:06d}-{rng.round:06d}-{rng.exchange:04d}"
    return Visit(visit.reply, records.write(visit.memory, name), visit.diary)

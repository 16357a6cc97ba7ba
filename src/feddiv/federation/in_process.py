"""The readable federation: clients are visited one after the other, in this process."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from feddiv.federation.workspace import Workspace
from feddiv.learning.average import StateDict, Weights
from feddiv.methods.contract import Assessment, Exchange, Facts, Message, Visit
from feddiv.randomness import Streams


class InProcess:
    """An oracle for the faster federations: no queue, no copy, no second thread."""

    def __init__(self, workspace: Workspace) -> None:
        torch.set_num_threads(1)  # more would change the bits, and be slower on small batches
        self.workspace = workspace
        self.memories: dict[int, Any] = {}
        dataset, draw = workspace.dataset, workspace.draw
        sizes = {client: len(part) for client, part in enumerate(draw.parts)}
        self.facts = Facts(dataset.classes, dataset.input_shape, sizes, draw.iid)

    def make_model(self, name: str, rng: Streams) -> StateDict:
        """Freshly initialised weights."""
        return self.workspace.make_model(name, rng)

    def exchange(self, exchange: Exchange, rng: Streams) -> Iterator[Visit[Any]]:
        """Visit the clients of the exchange in its order."""
        for id in exchange.clients:
            client, memory = self.workspace.client(id), self.memories.get(id)
            yield self.workspace.method.visit(client, memory, exchange.to(id), rng.at(client=id))

    def accept(self, client: int, memory: Any) -> None:
        """Keep the client's next memory."""
        self.memories[client] = memory

    def evaluate(self, weights: Weights) -> npt.NDArray[np.float32]:
        """Test logits."""
        return self.workspace.evaluate(weights)

    def assess(self, message: Message) -> Iterator[tuple[int, Assessment]]:
        """Ask every client."""
        for id in self.facts.sizes:
            memory = self.memories.get(id)
            yield id, self.workspace.method.assess(self.workspace.client(id), memory, message)

"""The readable federation: clients are visited one after the other, in this process."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from feddiv.core.arrays import Weights
from feddiv.core.interrupts import allowed
from feddiv.core.randomness import Streams
from feddiv.federation.simulation import Simulation
from feddiv.federation.visit import make_assessment, make_visit
from feddiv.methods.contract import Assessment, Exchange, Message, Visit


class InProcess(Simulation):
    """An oracle for the faster federations: no queue, no second process, no second thread."""

    def visits(self, exchange: Exchange, rng: Streams) -> Iterator[Visit[Any]]:
        """Visit the clients of the exchange in its order."""
        for id in exchange.clients:
            message, record = exchange.to(id), self.memories.get(id)
            with allowed():  # a visit changes nothing but what it returns
                visit = make_visit(self.workspace, self.records, message, record, rng.at(client=id))
            yield visit

    def evaluate(self, weights: Weights) -> npt.NDArray[np.float32]:
        """Test logits."""
        with allowed():
            return self.workspace.evaluate(weights)

    def assess(self, message: Message, rng: Streams) -> Iterator[tuple[int, Assessment]]:
        """Ask every client."""
        for id in self.facts.sizes:
            record = self.memories.get(id)
            with allowed():
                opinion = make_assessment(self.workspace, self.records, message, record, id)
            yield id, opinion

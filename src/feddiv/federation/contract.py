"""What the round loop asks of a federation."""

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from feddiv.learning.average import StateDict, Weights
from feddiv.methods.contract import Assessment, Exchange, Facts, Message, Visit
from feddiv.randomness import Streams
from feddiv.trees import Tensors


class Federation(Protocol):
    """Clients that can be asked; the memory of each is kept by whoever holds the client."""

    @property
    def facts(self) -> Facts:
        """The hello exchange: classes, shapes, clients and their sizes."""

    def make_model(self, name: str, rng: Streams) -> StateDict:
        """Freshly initialised weights."""

    def exchange(self, exchange: Exchange, rng: Streams) -> Iterator[Visit[Any]]:
        """Outcomes in the order of the exchange's clients; a client that fails is left out."""

    def accept(self, client: int, memory: Any) -> None:
        """The reply was taken: this is the client's memory once the exchange is over."""

    def commit(self) -> None:
        """The exchange is over: memories that were accepted hold from now on."""

    def discard(self) -> None:
        """The exchange is given up: memories that were accepted in it are forgotten."""

    def evaluate(self, weights: Weights) -> npt.NDArray[np.float32]:
        """Logits [N, C] of the global model on the test samples."""

    def assess(self, message: Message) -> Iterator[tuple[int, Assessment]]:
        """Every reachable client's opinion of its own labels; in simulation they come to light."""

    def save(self) -> Tensors:
        """What the loop's checkpoint has to hold of the clients, as of the last commit."""

    def restore(self, tensors: Tensors) -> None:
        """Go on from what was saved."""

    def files(self) -> list[str]:
        """Names of the files that hold nets which clients keep, as of the last commit."""

    def close(self) -> None:
        """Let go of processes and connections."""

"""What the round loop asks of a federation."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from feddiv.core.arrays import StateDict, Weights
from feddiv.core.randomness import Streams
from feddiv.core.trees import Tensors
from feddiv.data.scaling import Scaling
from feddiv.learning.quality import Confusion
from feddiv.methods.contract import Assessment, Exchange, Facts, Message, Visit


@dataclass(frozen=True)
class Absence:
    """A client that was asked and gave no answer that can be looked at, and why."""

    client: int
    reason: str


@dataclass(frozen=True)
class Totals:
    """What a real site says of its assessment: counts of its labels. The rest stays there.

    `flagged` is None where the method has no opinion; `wrong` and `caught`, the wrong labels and
    those of them that are flagged, are None where nobody knows the truth.
    """

    samples: int
    flagged: int | None = None
    wrong: int | None = None
    caught: int | None = None

    @property
    def confusion(self) -> Confusion | None:
        """The filter's decisions against the truth."""
        if self.flagged is None or self.wrong is None or self.caught is None:
            return None
        missed, false = self.wrong - self.caught, self.flagged - self.caught
        return Confusion(self.caught, false, missed, self.samples - self.wrong - false)


class Federation(ABC):
    """Clients that can be visited; the memory of each is kept by whoever holds the client.

    What a federation has to do itself is abstract. The rest are defaults for clients that are all
    there from the start and always answer; where clients can be lost, `enough`, `mark`, `rewind`
    and `regroup` let a turn be repeated.
    """

    scaling: Scaling | None = None  # that all clients were told, if any

    @property
    @abstractmethod
    def facts(self) -> Facts:
        """The hello exchange: classes, shapes, clients and their sizes."""

    @abstractmethod
    def make_model(self, name: str, rng: Streams) -> StateDict:
        """Freshly initialised weights."""

    @abstractmethod
    def standardise(self, scaling: Scaling) -> None:
        """From now on everybody's feature vectors are standardised by this."""

    @abstractmethod
    def visits(self, exchange: Exchange, rng: Streams) -> Iterator[Visit[Any] | Absence]:
        """The clients' work: outcomes in the order of the exchange's clients.

        A client that is left out did not answer.
        """

    @abstractmethod
    def accept(self, client: int, memory: Any) -> None:
        """The reply was taken: this is the client's memory once the exchange is over."""

    def refuse(self, client: int, reason: str) -> str:
        """The reply was not taken, and why; how to put it in the journal."""
        return reason

    @abstractmethod
    def commit(self) -> None:
        """The exchange is over: memories that were accepted hold from now on."""

    @abstractmethod
    def discard(self) -> None:
        """The exchange is given up: memories that were accepted in it are forgotten."""

    def newcomers(self) -> dict[int, int]:
        """Sizes of clients that have joined since this was last asked; they are in `facts` now."""
        return {}

    def enough(self, answered: int, asked: int) -> bool:
        """Whether a round counts in which so many of those asked have answered."""
        return True

    def mark(self) -> Any:
        """Remember this point, the boundary of two turns: `save` writes it, `rewind` restores it.

        None if no turn is ever repeated here: `save` then writes the last commit.
        """
        return None

    def rewind(self, mark: Any) -> None:
        """The turn is given up: memories as at the mark. Needed only if `enough` can be False."""
        raise NotImplementedError("this federation never repeats a turn")

    def regroup(self, failures: int) -> None:
        """Wait until the turn that failed so often may go better; `TooFew` if there is no hope."""
        raise NotImplementedError("this federation never repeats a turn")

    @abstractmethod
    def evaluate(self, weights: Weights) -> npt.NDArray[np.float32]:
        """Logits [N, C] of the global model on the test samples."""

    @abstractmethod
    def outputs_finite(self, weights: Weights) -> bool:
        """Whether the outputs of such a model are finite, on a few samples that the server has."""

    @abstractmethod
    def assess(self, message: Message, rng: Streams) -> Iterator[tuple[int, Assessment | Totals]]:
        """Simulated clients return their opinion of every label, real sites only counts."""

    @abstractmethod
    def save(self) -> Tensors:
        """What the loop's checkpoint has to hold of the clients, as of the last mark or commit."""

    @abstractmethod
    def restore(self, tensors: Tensors) -> None:
        """Go on from what was saved."""

    def files(self) -> list[str]:
        """Names of the files that hold nets which clients keep, as of the last commit."""
        return []

    def close(self) -> None:  # noqa: B027 - nothing to do is the default
        """Let go of processes and connections."""

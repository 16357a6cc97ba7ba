"""What a part of feddiv has to say of itself to be crashed (`crash.py`)."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

Job = Callable[[], object]
Fingerprint = dict[str, str]


class Target(ABC):
    """Something that writes to a folder, can be killed there and taken up again."""

    @abstractmethod
    def job(self, folder: Path) -> Job:
        """Begin it in this folder or, if it was begun there, take it up."""

    @abstractmethod
    def signs(self, folder: Path) -> object:
        """Something that changes when a process has begun to work in the folder."""

    @abstractmethod
    def result(self, folder: Path) -> Fingerprint:
        """Fingerprints of all that must be the same whether it was killed or not."""

    @abstractmethod
    def tear(self, folder: Path, rng: Random) -> None:
        """Cut off or garble what nobody had made sure is on the disk."""

    @contextmanager
    def ready(self) -> Iterator[None]:
        """What it needs around it."""
        yield

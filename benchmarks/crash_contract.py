"""What a part of feddiv has to say of itself to be crashed (`crash.py`)."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from forks import Job

Fingerprint = dict[str, str]
FILES = " files"  # how the name of a list of files ends


class Target(ABC):
    """Something that writes to a folder, can be killed there and taken up again."""

    # Bytes that it says of a full disk at most: what it says is read from a file, which a limit on
    # the size of files concerns as well.
    says = 1 << 8

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

    def prepare(self, folder: Path) -> object:
        """Make what is there before it is begun, whole and on the disk: nothing, mostly."""
        return None

    def tells(self, said: str) -> bool:
        """Whether a full disk is told as it should: in one line."""
        return "Traceback" not in said and len(said.splitlines()) == 1

    @contextmanager
    def ready(self) -> Iterator[None]:
        """What it needs around it."""
        yield

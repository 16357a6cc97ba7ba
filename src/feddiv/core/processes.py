"""Work that several processes share: one function, many items, results in order."""

import atexit
import copy
import multiprocessing
import os
import sys
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Final, Generic, TypeVar

from feddiv.core.errors import in_one_line
from feddiv.core.interrupts import left_to_parent

Item = TypeVar("Item")
Result = TypeVar("Result")

AHEAD: Final = 4  # items per process that may be done before the one whose turn it is
QUEUED: Final = 2  # that a process has at a time: one to work on, and the next


class ProcessDied(RuntimeError):
    """A process died while it worked on the item of this number."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def in_order(
    work: Callable[[Item], Result], items: Sequence[Item], ahead: int = AHEAD
) -> Generator[Result]:
    """The result of each item, by one process per core.

    `work` and `items` are handed to the processes once. One item alone, or one core alone, needs no
    other process.
    """
    processes = min(usable_cores(), len(items))
    if processes < 2:
        yield from map(work, items)
        return
    team = _Team[Result](ahead)
    try:
        for _ in range(processes):
            team.join(work, items)
        yield from team.results(len(items))
    finally:
        team.end()


@dataclass(eq=False)
class _Mate:
    """A process, and the numbers of its items whose results have not come yet."""

    process: BaseProcess
    connection: Connection
    numbers: deque[int] = field(default_factory=deque)


class _Team(Generic[Result]):
    """Processes with a pipe each.

    No thread and no queue is between them and us. Whoever is killed in the middle of a result then
    leaves a pipe that ends, and nobody who waits for the rest of it; an executor's thread waits
    forever, because the executor itself holds the other end.
    """

    def __init__(self, ahead: int) -> None:
        self._ahead = ahead
        self._mates: list[_Mate] = []
        self._done: dict[int, tuple[Result | None, Exception | None]] = {}
        # Who takes no more results may leave us open until the interpreter ends, and that waits for
        # processes, which ignore its SIGTERM.
        atexit.register(self.end)

    def join(self, work: Callable[[Any], Result], items: Sequence[Any]) -> None:
        """One more process."""
        # A fork shares what is in memory; elsewhere it may not be safe and a copy is sent.
        forks = sys.platform == "linux"
        context: Any = multiprocessing.get_context("fork" if forks else "spawn")
        ours, theirs = context.Pipe()
        others = [*(mate.connection for mate in self._mates), ours] if forks else []
        process = context.Process(target=_live, args=(work, items, theirs, others), daemon=True)
        process.start()
        theirs.close()
        self._mates.append(_Mate(process, ours))

    def results(self, count: int) -> Generator[Result]:
        """Those of so many items, in their order."""
        given = 0
        for turn in range(count):
            while turn not in self._done:
                while given < min(count, turn + self._ahead * len(self._mates)):
                    mate = min(self._mates, key=lambda mate: len(mate.numbers))
                    if len(mate.numbers) == QUEUED:
                        break
                    self._give(mate, given)
                    given += 1
                self._receive()
            result, error = self._done.pop(turn)
            if error is not None:
                raise error
            yield result  # type: ignore[misc]  # it is one where there is no error

    def _give(self, mate: _Mate, number: int) -> None:
        """Numbers are small: no pipe is ever full of them, so this never waits."""
        mate.numbers.append(number)
        try:
            mate.connection.send(number)
        except OSError:
            raise ProcessDied(mate.numbers[0]) from None

    def _receive(self) -> None:
        """Wait for results, and take one of each process that has any."""
        ready = wait([mate.connection for mate in self._mates if mate.numbers])
        for mate in self._mates:
            if mate.connection in ready:
                try:
                    outcome = mate.connection.recv()
                except (EOFError, OSError):
                    raise ProcessDied(mate.numbers[0]) from None
                self._done[mate.numbers.popleft()] = outcome

    def end(self) -> None:
        """Nobody is asked: they leave signals to us, and one may wait for a disk forever."""
        for mate in self._mates:
            mate.process.kill()
        for mate in self._mates:
            mate.process.join()
            mate.connection.close()
        atexit.unregister(self.end)


def _live(
    work: Callable[[Any], Any],
    items: Sequence[Any],
    connection: Connection,
    others: Sequence[Connection],
) -> None:
    """Be one of the processes."""
    left_to_parent()
    for other in others:
        other.close()  # or a dead sibling's pipe would stay open here
    with suppress(EOFError, OSError):  # whom we work for is gone
        while True:
            outcome = _outcome(work, items[connection.recv()])
            try:
                connection.send(outcome)
            except OSError:
                raise
            except Exception as problem:  # a result that cannot be sent, or an error
                connection.send((None, RuntimeError(in_one_line(outcome[1] or problem))))


def _outcome(work: Callable[[Any], Any], item: Any) -> tuple[Any, Exception | None]:
    try:
        return work(item), None
    except Exception as error:
        return None, _sendable(error)


def _sendable(error: Exception) -> Exception:
    """The error, or its line where that could not be made again: it has arguments of its own."""
    try:
        copy.copy(error)  # makes it again from its arguments, as sending it does
    except Exception:
        return RuntimeError(in_one_line(error))
    return error


def usable_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

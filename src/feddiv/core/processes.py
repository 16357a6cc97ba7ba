"""Work that several processes share: one function, many items, results in order."""

import multiprocessing
import os
import sys
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Final, TypeVar

from feddiv.core.interrupts import left_to_parent

Item = TypeVar("Item")
Result = TypeVar("Result")

AHEAD: Final = 4  # items per process that may be under way


class ProcessDied(RuntimeError):
    """A process died while it worked on the item of this number, or on one soon after."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def in_order(
    work: Callable[[Item], Result], items: Sequence[Item], ahead: int = AHEAD
) -> Generator[Result]:
    """The result of each item, by one process per core.

    `work` is handed to the processes once, with all that belongs to it. One item alone, or one core
    alone, needs no other process.
    """
    processes = min(usable_cores(), len(items))
    if processes < 2:
        yield from map(work, items)
        return
    # A fork shares what is in memory; elsewhere it may not be safe and a copy is sent.
    method = "fork" if sys.platform == "linux" else "spawn"
    others = set(multiprocessing.active_children())
    with ProcessPoolExecutor(
        processes, multiprocessing.get_context(method), _begin, (work,)
    ) as pool:
        waiting: deque[tuple[int, Future[Result]]] = deque()
        try:
            for number, item in enumerate(items):
                waiting.append((number, pool.submit(_done, item)))
                if len(waiting) >= ahead * processes:
                    yield _result(*waiting.popleft())
            while waiting:
                yield _result(*waiting.popleft())
        except BaseException:  # they leave signals to us, and one may wait for a disk forever
            for process in set(multiprocessing.active_children()) - others:
                process.kill()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _result(number: int, future: "Future[Result]") -> Result:
    try:
        return future.result()
    except BrokenProcessPool:
        raise ProcessDied(number) from None


_work: Callable[[Any], Any] | None = None  # of one of the processes


def _begin(work: Callable[[Any], Any]) -> None:
    global _work
    left_to_parent()
    _work = work


def _done(item: Any) -> Any:
    assert _work is not None
    return _work(item)


def usable_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

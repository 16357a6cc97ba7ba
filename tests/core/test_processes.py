"""Work by several processes: results in order, errors, deaths, and an end that never hangs."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from feddiv.core import processes
from feddiv.core.processes import ProcessDied, in_order

LARGE = 16 << 20  # bytes: a result that takes a while to get through a pipe


@pytest.fixture(autouse=True)
def cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "usable_cores", lambda: 2)


@pytest.fixture(autouse=True)
def nobody_is_left() -> Iterator[None]:
    before = set(multiprocessing.active_children())
    yield
    assert set(multiprocessing.active_children()) == before


def within(seconds: float, job: Callable[[], Any]) -> None:
    """It ends in time; a thread, so that a test that would hang fails."""
    thread = threading.Thread(target=job, daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), "hangs"


def slow_first(number: int) -> tuple[int, int]:
    time.sleep(0.2 * (number == 0))
    return number, os.getpid()


def test_results_come_in_order_from_two_processes() -> None:
    results = list(in_order(slow_first, range(20)))
    assert [number for number, _ in results] == list(range(20))
    pids = {pid for _, pid in results}
    assert len(pids) == 2
    assert os.getpid() not in pids


@pytest.mark.parametrize("count", [2, 3])
def test_few_items_are_shared_out(count: int) -> None:
    assert len({pid for _, pid in in_order(slow_first, range(count))}) == 2


def test_no_more_than_a_few_are_done_ahead(tmp_path: Any) -> None:
    def note(number: int) -> int:
        (tmp_path / str(number)).touch()
        time.sleep(0.3 * (number == 0))
        return number

    results = in_order(note, range(100), ahead=3)
    next(results)
    time.sleep(0.1)
    assert len(list(tmp_path.iterdir())) <= 2 * 3 + 1
    results.close()


def large(number: int) -> bytes:
    return bytes(LARGE)


def test_stopped_in_the_middle_of_a_result() -> None:
    def stop() -> None:
        for _ in range(5):
            results = in_order(large, range(12))
            next(results)
            results.close()

    within(60, stop)


def killed(number: int) -> bytes:
    """One is killed while its result is half way through the pipe."""
    if number == 3:
        threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGKILL)).start()
        return bytes(32 * LARGE)
    return b""


def test_a_process_that_is_killed_in_the_middle_of_a_result_is_told() -> None:
    told = list[int]()

    def collect() -> None:
        try:
            list(in_order(killed, range(12)))
        except ProcessDied as death:
            told.append(death.number)

    within(60, collect)
    assert told == [3]


def exit_at_five(number: int) -> int:
    if number == 5:
        os._exit(1)
    return number


def test_the_item_of_a_death_is_named() -> None:
    with pytest.raises(ProcessDied) as death:
        list(in_order(exit_at_five, range(9)))
    assert death.value.number == 5


class Own(Exception):
    """Cannot be sent."""

    def __init__(self) -> None:
        super().__init__("no such thing")
        self.lock = threading.Lock()


class OfTwo(Exception):
    """Can be sent, and not be made again."""

    def __init__(self, what: str, where: str) -> None:
        super().__init__(f"no {what} in {where}")


def raising(number: int) -> int:
    if number == 4:
        raise Own
    if number == 5:
        raise OfTwo("pixels", "here")
    if number == 2:
        raise ValueError("two")
    return number


def test_errors_come_in_their_turn() -> None:
    results = in_order(raising, range(3))
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(ValueError, match="two"):
        next(results)
    with pytest.raises(RuntimeError, match="Own: no such thing"):
        list(in_order(raising, [0, 4]))
    with pytest.raises(RuntimeError, match="OfTwo: no pixels in here"):
        list(in_order(raising, [0, 5]))


def nested(number: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(100_000):
        found = [found]
    return found


def test_a_result_that_cannot_be_sent_is_no_death() -> None:
    with pytest.raises(RuntimeError, match="RecursionError"):
        list(in_order(nested, range(2)))


LEFT_OPEN = """
from feddiv.core import processes
processes.usable_cores = lambda: 2
results = processes.in_order(str, range(50))
print(next(results))
"""


def test_a_program_ends_that_has_not_taken_all_results() -> None:
    """The interpreter waits for its children, who leave SIGTERM to it."""
    # A session of its own, so that nobody is left where it hangs.
    program = subprocess.Popen(
        [sys.executable, "-c", LEFT_OPEN], stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        said, _ = program.communicate(timeout=30)
    finally:
        if program.poll() is None:
            os.killpg(program.pid, signal.SIGKILL)
            program.wait()
    assert (program.returncode, said.strip()) == (0, b"0")

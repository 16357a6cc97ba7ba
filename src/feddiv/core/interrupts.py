"""Ctrl-C, SIGTERM and a closed terminal, taken only where nothing is half done.

A run is stopped between two exchanges, or inside one that can be thrown away. Everywhere else a
signal waits for the next such place; a second one does not wait.
"""

import ctypes
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)


class Stopped(KeyboardInterrupt):
    """Somebody asked this process to stop."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal.Signals(signal_number).name)
        self.signal = signal_number


class _Gate:
    """Whether a signal may interrupt now, and the one that waits if not."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """As if no signal had come yet."""
        self.open, self.received = False, 0
        self.waiting: int | None = None

    def receive(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal: interrupt at once where that is allowed, or at the second signal."""
        self.received += 1
        if self.open or self.received > 1:
            self.waiting = None
            raise Stopped(number)
        self.waiting = number

    def release(self) -> None:
        """Interrupt now if a signal waits."""
        if self.waiting is not None:
            number, self.waiting = self.waiting, None
            raise Stopped(number)


_gate = _Gate()


def _wanted(number: int) -> bool:
    """Not a hang-up that `nohup` had ignored: the process is to outlive its terminal."""
    return number != getattr(signal, "SIGHUP", None) or signal.getsignal(number) != signal.SIG_IGN


@contextmanager
def handled() -> Iterator[None]:
    """Take over these signals inside the block; elsewhere than in the main thread do nothing.

    A signal that still waits at the end of the block is taken then.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _gate.receive) for number in SIGNALS if _wanted(number)}
    was_open = _gate.open  # a block inside a block
    _gate.reset()
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _gate.open = was_open
    _gate.release()


@contextmanager
def allowed() -> Iterator[None]:
    """Inside the block `Stopped` may be raised at any point."""
    before, _gate.open = _gate.open, True
    try:
        _gate.release()
        yield
    finally:
        _gate.open = before


def left_to_parent() -> None:
    """Call first in a child process: it ignores these signals.

    On Linux it is killed when its parent dies.
    """
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    if sys.platform == "linux":
        set_parent_death_signal = 1  # the kernel's, even if the parent ends by SIGKILL
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)

"""Signals wait until nothing is half done."""

import signal
import threading

import pytest

from feddiv.core.interrupts import SIGNALS, Stopped, allowed, handled

pytestmark = pytest.mark.usefixtures("terminal")


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_waits_for_the_next_place_where_it_may(number: int) -> None:
    done = []
    with handled():
        signal.raise_signal(number)
        done.append("the work that must not be torn")
        with pytest.raises(Stopped) as stopped, allowed():
            done.append("never")
        done.append("after")
        with allowed():  # it was told once
            done.append("again")
    assert done == ["the work that must not be torn", "after", "again"]
    assert stopped.value.signal == number


def test_a_signal_is_taken_at_once_where_it_may() -> None:
    with handled(), pytest.raises(Stopped, match="SIGTERM"), allowed():
        signal.raise_signal(signal.SIGTERM)


def test_a_second_signal_does_not_wait() -> None:
    with handled():
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(Stopped):
            signal.raise_signal(signal.SIGINT)


def test_the_second_does_not_wait_after_one_that_was_taken_either() -> None:
    with handled():
        with pytest.raises(Stopped), allowed():
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(Stopped):  # in the checkpoint that the first one brought about
            signal.raise_signal(signal.SIGINT)


def test_a_signal_that_came_too_late_is_taken_at_the_end() -> None:
    done = []

    def finish() -> None:
        with handled():
            signal.raise_signal(signal.SIGTERM)
            done.append("finished writing")

    with pytest.raises(Stopped):
        finish()
    assert done == ["finished writing"]


def test_a_block_inside_a_block() -> None:
    with handled(), allowed():
        with handled():
            pass
        with pytest.raises(Stopped):
            signal.raise_signal(signal.SIGTERM)


def test_handlers_are_put_back() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with handled():
        assert [signal.getsignal(number) for number in SIGNALS] != before
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_other_threads_leave_signals_alone() -> None:
    seen = []

    def work() -> None:
        with handled(), allowed():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGINT)]


def test_it_is_a_keyboard_interrupt_to_those_who_know_nothing_of_it() -> None:
    assert issubclass(Stopped, KeyboardInterrupt)


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="no terminals that hang up")
def test_under_nohup_a_closed_terminal_stops_nothing() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with handled(), allowed():
        signal.raise_signal(signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN

"""The app's process of a site: it imports everything once, and a copy of it answers each message.

    python -P -c 'from feddiv.flower.warm_visits import main; main()' ADDRESS KEEPER

Flower starts `flwr-clientapp` anew for every message, which then imports torch. This process takes
tasks from the SuperNode's Runtime API at ADDRESS, as Flower's SuperExec does, and forks: in the
copy runs the same `flwr-clientapp`, from the call of its entry point on. It takes the message and
the app from the SuperNode, answers, and ends. So this process never has a message, a site's data or
code of an app, and nothing gets from one visit to the next but by the site's folder; a visit that
crashes ends its copy. A visit also goes on if this process is killed. It ends if the process with
the number KEEPER does.
"""

import gc
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

import numpy as np

from feddiv.core.errors import UserError, in_one_line

# Exit code (EX_UNAVAILABLE): Flower offers not what is used here; another start would not help.
UNSUPPORTED = 69
PROGRAM = "flwr-clientapp"
POLL = "FLWR_SUPEREXEC_TASK_POLL_INTERVAL"  # Flower's own name for it, and its usual value
USUAL_POLL = "1.0"
LEAST_POLL, MOST_POLL = 0.01, 60.0  # seconds; Flower's bounds too
PATIENCE = 60.0  # seconds without an answer before a line says so
# What a visit would import otherwise. torch loads the second when an optimiser is made.
MODULES = ("feddiv.flower.clientapp", "torch._dynamo")

# What is raised where this Flower has another name, argument, field or encoding.
CHANGED = (ImportError, AttributeError, TypeError, ValueError)


class Unsupported(RuntimeError):
    """This Flower does not let tasks be taken as they are here."""


def pause() -> float:
    """Seconds between two questions for a task."""
    said = os.environ.get(POLL, USUAL_POLL)
    try:
        seconds = float(said)
    except ValueError:
        seconds = float("nan")
    if not LEAST_POLL <= seconds <= MOST_POLL:
        allowed = f"a number of seconds from {LEAST_POLL:g} to {MOST_POLL:g}"
        raise UserError(f"{POLL}={said}: has to be {allowed}")
    return seconds


class Tasks:
    """The tasks of a SuperNode with `--isolation process`."""

    def __init__(self, address: str) -> None:
        from flwr.proto.runtime_pb2 import AcquireTaskRequest
        from flwr.supercore.constant import TaskType
        from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
        from flwr.supercore.runtime import RuntimeHttpClient

        self._address = address
        self._request = AcquireTaskRequest(supported_task_types=[TaskType.CLIENT_APP])
        self._client = RuntimeHttpClient.from_server_address(
            server_address=address,
            insecure=True,  # it is on this machine
            root_certificates=None,
            interceptors=[RuntimeVersionHttpInterceptor(component_name="SuperExec")],
        )
        self._acquire: Callable[[Any], Any] = self._client.AcquireTask
        self._pause = pause()

    def next(self) -> str:
        """Wait for a task, or for the SuperNode; the token by which its process is let in."""
        import httpx

        heard, told = time.monotonic(), False
        while True:
            try:
                answer = self._acquire(self._request)
                heard, told = time.monotonic(), False
                if answer.HasField("task") and answer.token:
                    return str(answer.token)
            except httpx.HTTPStatusError as problem:
                if problem.response.is_client_error:  # it will say so again
                    raise Unsupported(in_one_line(problem)) from None
            except httpx.TransportError as problem:  # it is not there yet
                if not told and time.monotonic() - heard > PATIENCE:
                    silent = f"the SuperNode at {self._address} has not answered for"
                    print(f"feddiv: {silent} {PATIENCE:g} s: {in_one_line(problem)}", flush=True)
                    told = True
            except CHANGED as problem:
                raise Unsupported(in_one_line(problem)) from None
            time.sleep(self._pause)

    def close(self) -> None:
        """Let go of the connection."""
        self._client.close()


def program() -> Callable[[], Any]:
    """What Flower's program for one visit calls."""
    found = list(entry_points(group="console_scripts", name=PROGRAM))
    if not found:
        raise Unsupported(f"it has no {PROGRAM}")
    loaded: Callable[[], Any] = found[0].load()
    return loaded


def token_in_a_copy(tasks: Tasks) -> str:
    """For each task a copy of this process, which alone returns from here, with the task's token.

    One at a time: a SuperNode has no next message before the last one is answered.
    """
    while True:
        token = tasks.next()
        sys.stdout.flush()
        sys.stderr.flush()
        visit = os.fork()
        if visit == 0:
            tasks.close()
            np.random.seed()  # as a new process has it: apps may draw, feddiv does not
            return token
        code = os.waitstatus_to_exitcode(os.waitpid(visit, 0)[1])
        if code < 0:
            print(
                f"feddiv: a visit was ended by {name(-code)}; the server hears of it in a minute, "
                "when Flower misses it",
                flush=True,
            )


def name(number: int) -> str:
    """A signal's name; those for real time have none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def end_hard() -> None:
    """In a copy: let SIGTERM, SIGINT and SIGQUIT end it at once.

    By Flower's own handlers it would say that it failed and give no reply. The SuperNode then
    waits for one without end; a copy that falls silent it misses after a minute.
    """
    with suppress(ImportError):  # another Flower may have them elsewhere
        handled = import_module("flwr.supercore.exit.signal_handler")
        getattr(handled, "SIGNAL_TO_EXIT_CODE", {}).clear()


def main() -> None:
    """Take tasks until this process is ended; a copy ends with its visit."""
    address, keeper = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        try:
            tasks, run = Tasks(address), program()
        except CHANGED as problem:
            raise Unsupported(in_one_line(problem)) from None
        for module in MODULES:
            with suppress(ImportError):  # it only saves time, and a visit says what it misses
                import_module(module)
        gc.freeze()  # so that a copy shares this memory for longer
        token = token_in_a_copy(tasks)
    except Unsupported as problem:
        print(f"feddiv: tasks cannot be taken from this Flower: {problem}", flush=True)
        sys.exit(UNSUPPORTED)
    end_hard()
    sys.argv = [PROGRAM, "--runtime-api-address", address, "--token", token]
    sys.argv += ["--insecure", "--parent-pid", keeper]
    sys.exit(run())

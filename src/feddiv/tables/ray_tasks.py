"""The runs of a sweep as tasks of a Ray cluster that is there; results are on shared storage.

A task whose machine is lost is started again on another and goes on from the run's checkpoint.
"""

import logging
import os
import signal
import socket
import threading
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, Final

from feddiv.core.errors import UserError
from feddiv.tables.run_process import Start
from feddiv.tables.runners import Runner
from feddiv.tables.sweep_file import SweepJob

# Read when Ray is imported: no reports of use, no advice.
QUIET: Final = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
PATIENCE: Final = 10.0  # seconds for a first connection
LOST: Final = -1  # exit code of a run whose task is lost for good


class RayTasks(Runner):
    """One core of the cluster for each run."""

    def __init__(self, address: str, room: int | None) -> None:
        if find_spec("ray") is None:
            raise UserError("--ray: Ray is not installed: pip install 'feddiv[flower-simulation]'")
        os.environ.update({key: os.environ.get(key, value) for key, value in QUIET.items()})
        _check_reachable(address)
        import ray

        self._ray: Any = ray
        before = signal.getsignal(signal.SIGTERM)
        try:
            ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False)
        except (ConnectionError, ValueError, RuntimeError) as problem:
            said = str(problem).strip().splitlines() or [type(problem).__name__]
            raise UserError(f"--ray {address}: no cluster can be reached ({said[0]})") from None
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)  # Ray puts its own in its place
        cores = int(self._ray.cluster_resources().get("CPU", 0))
        if not cores:
            ray.shutdown()
            raise UserError(f"--ray {address}: the cluster has no cores to run on")
        self.room = min(room or cores, cores)
        # Lost machines are not the run's fault, so a task is started again as often as need be.
        self._task: Any = ray.remote(num_cpus=1, max_retries=-1)(_carried_out)
        self._running: dict[Any, SweepJob] = {}

    def start(self, job: SweepJob, what: Start) -> None:
        """A task for it, wherever there is room."""
        self._running[self._task.remote(what.arguments, what.allow, what.folder)] = job

    def ended(self) -> Mapping[SweepJob, int]:
        """Those whose task has, or is lost."""
        waiting = list(self._running)
        if not waiting:
            return {}
        ready, _ = self._ray.wait(waiting, num_returns=len(waiting), timeout=0)
        return {self._running.pop(each): self._code(each) for each in ready}

    def _code(self, task: Any) -> int:
        try:
            return int(self._ray.get(task))
        except self._ray.exceptions.RayError:
            return LOST

    def stop(self) -> None:
        """Cancel; runs die with the worker that started them, and have their last checkpoint."""
        for task in self._running:
            self._ray.cancel(task, force=True)
        self._running.clear()
        self._ray.shutdown()


def _check_reachable(address: str) -> None:
    """Ray itself tries for minutes to reach a machine that is not there."""
    host, colon, port = address.rpartition(":")
    if not colon or "//" in address or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), PATIENCE).close()
    except (OSError, OverflowError) as problem:
        said = getattr(problem, "strerror", None) or problem
        raise UserError(f"--ray {address}: no cluster can be reached ({said})") from None


def _carried_out(arguments: tuple[str, ...], allow: tuple[str, ...], folder: str) -> int:
    """On a machine of the cluster: run it, or go on with what an earlier try has left."""
    return Start(arguments, allow, folder).wait()

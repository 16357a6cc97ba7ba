"""Runs on Flower's simulation engine: every client of the draw is a node, and Ray runs them.

The engine has a thread of its own, and the run stays in the one that asked: it alone can be told
to stop by a signal, and writes its checkpoint then.
"""

import logging
import os
import secrets
import threading
import time
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from feddiv.config.sections import Flower, FlowerSimulation
from feddiv.core.errors import TooFew, UserError
from feddiv.core.interrupts import allowed
from feddiv.data.noise.own_noise import import_paths
from feddiv.federation.federation import Federation
from feddiv.runs.prepare import Prepared
from feddiv.runs.run_folder import RunFolder

# Read when Flower and Ray are imported: no reports of use, no advice.
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
SITES = "sites"  # in the run's folder: what every client keeps for itself
PATIENCE = 3.0  # seconds that visits have to end when the engine is stopped
LOOKED = 0.5  # seconds between two looks of a client's process at whether it shall end


def check_simulation(source: str, workers: int | None) -> None:
    """Refuse what cannot be simulated, before anything is prepared."""
    for package, name in (("flwr", "Flower"), ("ray", "Ray")):
        if find_spec(package) is None:
            raise UserError(
                f"federation.name=flower_simulation: {name} is not installed: "
                "pip install 'feddiv[flower-simulation]'"
            )
    if source == "python":
        raise UserError(
            "federation.name=flower_simulation: data that were given in Python stay in this "
            "process; give them as files (data.source), or use federation.name=local"
        )
    if workers is not None:
        raise UserError(
            f"workers={workers}: federation.name=flower_simulation has Ray's; "
            "federation.cpus says how many cores each takes"
        )


def simulated(prepared: Prepared, folder: RunFolder) -> Federation:
    """The federation of a run whose clients are on Ray; it ends with the engine."""
    options = prepared.experiment.federation
    assert isinstance(options, FlowerSimulation)
    os.environ.update({key: os.environ.get(key, value) for key, value in QUIET.items()})
    from feddiv.flower.grid_federation import FlowerFederation

    engine = Engine(prepared, folder.path.absolute() / SITES, options)

    class Simulated(FlowerFederation):
        """Closes its engine."""

        def close(self) -> None:
            engine.close()

    rules = Flower(
        quorum=options.quorum, round_timeout=options.round_timeout, attempts=options.attempts
    )
    return Simulated(
        engine,
        prepared.workspace,
        prepared.experiment,
        rules,
        secrets.token_hex(16),  # not a draw: it tells this run's files from other runs'
        hello_timeout=options.round_timeout,  # the first message starts all processes
        keyed=False,
    )


class Engine:
    """Flower's engine in its thread, seen as the network that it simulates."""

    def __init__(self, prepared: Prepared, sites: Path, options: FlowerSimulation) -> None:
        self.sites, self.options = sites, options
        self.count = len(prepared.draw.parts)
        self.net = prepared.experiment.model.name
        self.method = prepared.experiment.method.name
        self.noises = tuple(import_paths(prepared.experiment.noise.model_dump()))
        self.stop = sites / f".stop-{secrets.token_hex(8)}"
        self._grid: Any = None
        self._begun, self._over = threading.Event(), threading.Event()
        self._problem: Exception | None = None
        self._thread = threading.Thread(target=self._work, name="flower", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        logger = logging.getLogger("flwr")
        level = logger.level
        logger.setLevel(logging.CRITICAL)  # what goes wrong comes back as an answer
        try:
            self._run()
        except Exception as problem:
            self._problem = problem
        finally:
            logger.setLevel(level)
            self._over.set()
            self._begun.set()

    def _run(self) -> None:
        from flwr.app import Context
        from flwr.serverapp import Grid, ServerApp
        from flwr.simulation import run_simulation

        from feddiv.flower.clientapp import app_of
        from feddiv.flower.site import Site
        from feddiv.flower.site_data import Part

        sites, nets, stop = self.sites, (self.net,), self.stop
        noises, methods = self.noises, (self.method,)

        def site(context: Context) -> Site:
            heed(stop)
            place = int(context.node_config["partition-id"])
            return Site(sites / str(place), Part(place), nets=nets, noises=noises, methods=methods)

        server = ServerApp()

        @server.main()
        def lend(grid: Grid, context: Context) -> None:
            """The Grid is used from the run's own thread until it is over."""
            self._grid = grid
            self._begun.set()
            self._over.wait()

        clients = {"num_cpus": self.options.cpus, "num_gpus": self.options.gpus}
        ray = {"logging_level": "error", "log_to_driver": False}
        config: Any = {"client_resources": clients, "init_args": ray}
        run_simulation(server, app_of(site), self.count, backend_config=config)

    def get_nodes(self) -> Iterable[Any]:
        """All nodes, once there are."""
        while True:
            nodes = list(self._lent().get_nodes())
            if len(nodes) == self.count:
                return nodes
            with allowed():
                time.sleep(0.05)

    def push_messages(self, messages: Iterable[Any]) -> Iterable[str]:
        """Send."""
        ids: Iterable[str] = self._lent().push_messages(messages)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Any]:
        """Answers that have come."""
        answers: Iterable[Any] = self._lent().pull_messages(message_ids)
        return answers

    def _lent(self) -> Any:
        """The Grid, as long as the engine runs."""
        with allowed():
            self._begun.wait()
        if self._over.is_set():
            raise self._ended()
        return self._grid

    def _ended(self) -> Exception:
        problem: BaseException | None = self._problem
        while problem is not None and problem.__cause__ is not None:
            problem = problem.__cause__
        if "ActorPool is empty" in str(problem):
            return UserError(
                f"federation.cpus={self.options.cpus:g} and federation.gpus={self.options.gpus:g}: "
                "no machine of Ray's has so many"
            )
        return TooFew(f"Flower's simulation engine ended: {problem}")

    def close(self) -> None:
        """Stop the engine and Ray; visits that take long are not waited for."""
        self._over.set()
        self._thread.join(PATIENCE)
        if self._thread.is_alive():
            self.sites.mkdir(parents=True, exist_ok=True)
            self.stop.touch()
            self._thread.join()
            self.stop.unlink(missing_ok=True)


def heed(stop: Path) -> None:
    """End this process once the file is there: the engine itself gives up no visit."""
    if stop in _heeded:
        return
    _heeded.add(stop)

    def look() -> None:
        while not stop.exists():
            time.sleep(LOOKED)
        os._exit(1)

    threading.Thread(target=look, daemon=True).start()


_heeded: set[Path] = set()  # by this process

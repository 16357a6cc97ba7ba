"""A run in which replies are lost, and clients keep samples out of training."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from feddiv.config.reading import load_experiment
from feddiv.core.randomness import Streams
from feddiv.federation.federation import Federation
from feddiv.federation.in_process import InProcess
from feddiv.methods.contract import Exchange, Visit
from feddiv.runs.prepare import Prepared
from feddiv.runs.run_folder import RunFolder
from feddiv.testing.findings import Findings
from feddiv.testing.trial import watched_run


class Lossy(InProcess):
    """Clients some of whom never answer; somebody does in every turn."""

    def visits(self, exchange: Exchange, rng: Streams) -> Iterator[Visit[Any]]:
        """Visit some of the clients."""
        asked = exchange.clients
        if len(asked) > 1:
            asked = asked[1:] if rng.round % 2 else asked[-1:]
        elif rng.exchange % 2:
            asked = ()
        yield from super().visits(replace(exchange, clients=asked), rng)


def check_lost_replies(settings: Mapping[str, Any], folder: Path, findings: Findings) -> None:
    """The method has to go on with the replies that come."""

    def carrier(prepared: Prepared, folder: RunFolder) -> Federation:
        return Lossy(prepared.workspace, folder.path / "nets")

    held_out = load_experiment(None, {**settings, "evaluation.name": "held_out"})
    findings.circumstance = "where replies are lost, "
    watched_run(held_out, folder, findings, carrier)

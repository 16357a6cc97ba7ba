"""A small trial over the Grid of this process, and the same run on the local engine."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flwr.app import Context, RecordDict
from tests.flower.grids import LocalGrid

import feddiv
from feddiv.flower import client_app, serve
from feddiv.runs.run import Run

CLIENTS = 3
SETTINGS: dict[str, Any] = {
    "rounds": 3,
    "clients.count": CLIENTS,
    "clients.fraction": 1.0,
    "warmup.iterations": 1,
    "train.epochs": 1,
    "data.images": 120,
    "model.name": "mlp",
    "evaluation.every": 3,
    "checkpoint.seconds": 0.0,
    "against": [],
}


def run_config(out: Path, **settings: Any) -> dict[str, Any]:
    """Flower's run config of the trial."""
    pairs = {**SETTINGS, **{key.replace("__", "."): value for key, value in settings.items()}}
    told = " ".join(f"{key}={json.dumps(value)}" for key, value in pairs.items())
    quoted = told.replace('"', r"\"")
    return {"preset": "quickstart", "out": str(out), "settings": quoted, "resume": False}


def trial_grid(config: Mapping[str, Any], clients: int = CLIENTS) -> LocalGrid:
    """One node for each client; their numbers say nothing about the clients'."""
    nodes = {70 - place: {"partition-id": place} for place in range(clients)}
    return LocalGrid(client_app(), nodes, config)


def served(grid: LocalGrid, config: Mapping[str, Any]) -> Run:
    """The server's part."""
    context = Context(
        run_id=1, node_id=0, node_config={}, state=RecordDict(), run_config=dict(config)
    )
    return serve(grid, context)


def local(out: Path, **settings: Any) -> Run:
    """The same on this machine."""
    pairs = {key.replace("__", "."): value for key, value in settings.items()}
    ours = {k: v for k, v in pairs.items() if not k.startswith("federation.")}
    return feddiv.run("quickstart", {**SETTINGS, **ours}, out=out, workers=0)


def lines(file: Path) -> list[dict[str, Any]]:
    """A journal."""
    return [json.loads(line) for line in file.read_text().splitlines()]

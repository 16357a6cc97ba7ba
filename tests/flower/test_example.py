"""The worked example: a Flower app with FedAvg, and the same app with FedDiv."""

import csv
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from flwr.app import Context, RecordDict
from flwr.serverapp import strategy
from tests.flower.grids import LocalGrid

import feddiv.flower.strategy as ours

pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).parents[2] / "examples" / "flower"
ROUNDS = 8


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLE), prepend=":")
    for name in [name for name in sys.modules if name.partition(".")[0] == "digits"]:
        monkeypatch.delitem(sys.modules, name)


def results(kind: type[strategy.Strategy], monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What a strategy's `start` will return."""
    found: list[Any] = []
    start = kind.start

    def noted(self: Any, *args: Any, **kwargs: Any) -> Any:
        found.append(start(self, *args, **kwargs))
        return found[-1]

    monkeypatch.setattr(kind, "start", noted)
    return found


def run(name: str) -> None:
    run_config = {"num-server-rounds": ROUNDS}
    torch.manual_seed(0)
    nodes = {10 + place: {"partition-id": place, "num-partitions": 3} for place in range(3)}
    grid = LocalGrid(import_module(f"digits.{name}_client").app, nodes, run_config)
    context = Context(
        run_id=1, node_id=0, node_config={}, state=RecordDict(), run_config=run_config
    )
    import_module(f"digits.{name}_server").app(grid, context)


def accuracy(result: Any) -> float:
    return float(result.evaluate_metrics_serverapp[ROUNDS]["accuracy"])


def test_all_files_together_have_fewer_than_60_lines() -> None:
    lines = [line for file in EXAMPLE.rglob("*.py") for line in file.read_text().splitlines()]

    assert 0 < len([line for line in lines if line.strip()]) < 60


def test_fedavg_becomes_feddiv_which_is_better_on_wrong_labels(
    example: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    theirs = results(strategy.FedAvg, monkeypatch)
    mine = results(ours.Strategy, monkeypatch)

    run("fedavg")
    run("feddiv")

    assert accuracy(theirs[0]) < 0.87
    assert accuracy(mine[0]) > 0.91
    assert theirs[0].evaluate_metrics_serverapp[0] == mine[0].evaluate_metrics_serverapp[0]
    assert sorted(mine[0].evaluate_metrics_serverapp) == list(range(ROUNDS + 1))
    task = import_module("digits.task")
    context = Context(1, 0, {"partition-id": 1}, RecordDict(), {})
    given = task.data(context).tensors[1]
    truth = task.y[torch.arange(301, len(task.x), 3)]
    with (tmp_path / "digits-sites" / "1" / "labels.csv").open() as file:
        audit = list(csv.DictReader(file))
    flagged = {int(line["sample"]) for line in audit if line["is_label_issue"] == "True"}
    wrong = {int(row) for row in torch.nonzero(given != truth).flatten()}
    held = {int(line["sample"]) for line in audit}
    assert len(flagged & wrong) / len(flagged) > 0.85
    assert len(flagged & wrong) / len(wrong & held) > 0.85


def test_runs_on_the_simulation_engine(
    example: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from feddiv.flower.ray_simulation import QUIET

    for key, value in QUIET.items():
        monkeypatch.setenv(key, value)
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp
    from flwr.simulation import run_simulation

    client: ClientApp = import_module("digits.feddiv_client").app
    main = import_module("digits.feddiv_server").main
    mine = results(ours.Strategy, monkeypatch)
    server = ServerApp()

    @server.main()
    def started(grid: Grid, context: Context) -> None:
        torch.manual_seed(0)
        main(grid, Context(1, 0, {}, RecordDict(), {"num-server-rounds": ROUNDS}))

    resources: Any = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
    run_simulation(server, client, 3, backend_config=resources)

    run("feddiv")

    simulated, local = (result.arrays.to_torch_state_dict() for result in mine)
    assert all(torch.equal(simulated[key], local[key]) for key in local)
    assert (tmp_path / "digits-sites" / "2" / "labels.csv").is_file()

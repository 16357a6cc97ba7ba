"""A sweep on a Ray cluster of two machines, of which one is lost in the middle."""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import feddiv
from feddiv.core.errors import UserError
from feddiv.tables.sweep_file import SweepJob

pytestmark = pytest.mark.full
LONG = {
    "rounds": 40,
    "warmup": {"iterations": 1},
    "data": {"images": 160},
    "clients": {"count": 4},
    "train": {"epochs": 1},
    "checkpoint": {"seconds": 0.0},
}
MINE = {"settings": ["quickstart"], "methods": ["fedavg"], "seeds": [0, 1], "options": LONG}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    pytest.importorskip("ray")
    from feddiv.tables.ray_tasks import QUIET

    for key, value in QUIET.items():
        monkeypatch.setenv(key, value)
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    yield made
    made.shutdown()


class Axe(feddiv.SweepWatcher):
    """Kills a machine when both runs are under way on a machine of their own."""

    def __init__(self, cluster: Any, node: Any) -> None:
        self.cluster, self.node = cluster, node
        self.lost = False

    def looked(self, running: Mapping[SweepJob, Path]) -> None:
        rounds = [each / "rounds.jsonl" for each in running.values()]
        if self.lost or len(rounds) < 2 or not all(each.is_file() for each in rounds):
            return
        if min(len(each.read_bytes().splitlines()) for each in rounds) >= 3:
            self.cluster.remove_node(self.node, allow_graceful=False)
            self.lost = True


def test_a_machine_that_is_lost_loses_no_run(tmp_path: Path, cluster: Any) -> None:
    node = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    axe = Axe(cluster, node)
    started = time.time()
    swept = feddiv.sweep(MINE, out=tmp_path / "shared", ray=cluster.address, watcher=axe)
    assert axe.lost
    assert swept.failed == {}
    assert [row.seed for row in swept.rows] == [0, 1]
    resumed = [
        folder for folder in swept.folders.values() if '"resumed"' in _environment(folder, started)
    ]
    assert len(resumed) == 1, "the run of the lost machine goes on from its checkpoint"
    (row,) = [row for row in swept.rows if f"seed{row.seed}" in resumed[0].name]
    here = {"against": [], "method.name": "fedavg", "seed": row.seed, **_flat(LONG)}
    alone = feddiv.run("quickstart", here, out=tmp_path / "alone", workers=0)
    assert row.summary["model_hash"] == alone.summary["model_hash"]


def _environment(folder: Path, started: float) -> str:
    file = folder / "environment.json"
    assert file.stat().st_mtime > started
    return file.read_text()


def _flat(tree: dict[str, Any]) -> dict[str, Any]:
    from feddiv.core.dotted import flat

    return flat(tree)


def test_a_cluster_that_is_not_there(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    with pytest.raises(UserError, match=r"^--ray 127\.0\.0\.1:1: no cluster can be reached"):
        feddiv.sweep(MINE, out=tmp_path / "out", ray="127.0.0.1:1")
    assert not (tmp_path / "out").exists()

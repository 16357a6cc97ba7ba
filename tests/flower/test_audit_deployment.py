"""Real processes on loopback: sites with classifiers of their own, and server/audit.sh."""

import csv
import sys
import time

import numpy as np
import pytest

pytest.importorskip("flwr")

from tests.flower.own_data import CLASSES, site_folder

from feddiv.deploy.demo import Limits, answers, environment, free_ports, online_nodes
from feddiv.deploy.deployment import init
from feddiv.deploy.processes import Processes
from feddiv.deploy.site_names import address

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc"),
]
LIMITS = Limits()


def likely(labels, wrong):
    """Probabilities of a model that is right: the labels say otherwise in the rows `wrong`."""
    truth = np.array(labels)
    truth[wrong] = (truth[wrong] + 1) % len(CLASSES)
    rng = np.random.default_rng(0)
    odds = np.exp(rng.normal(0, 1, (len(truth), len(CLASSES))))
    odds[np.arange(len(truth)), truth] *= 1000
    return odds / odds.sum(axis=1, keepdims=True)


def test_sites_that_bring_their_own_audit_by_the_script(tmp_path):
    port, *ports = free_ports(5)
    made = init(tmp_path / "net", ("north", "south", "east"), address(f"127.0.0.1:{port}"))
    experiment = made.server / "experiment.toml"
    classes = f"classes = {list(CLASSES)}"
    experiment.write_text(experiment.read_text().replace("classes = []", classes))

    images = site_folder(tmp_path / "images", range(0, 80))
    names = sorted(str(file.relative_to(images)) for file in images.rglob("*.png"))
    labels = [CLASSES.index(name.split("/")[0]) for name in names]
    wrong = [3, 30, 60]
    with (tmp_path / "north.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["sample", *CLASSES])
        for name, row in zip(names, likely(labels, wrong), strict=True):
            table.writerow([name, *(f"{value:.6f}" for value in row)])
    numbers = np.arange(200) % len(CLASSES)
    np.savez(tmp_path / "south.npz", probabilities=likely(numbers, range(50)), labels=numbers)
    np.savez(tmp_path / "east.npz", probabilities=np.ones((9, 4)), labels=np.zeros(9, np.int64))
    own = {
        "north": {
            "FEDDIV_SITE_DATA": str(images),
            "FEDDIV_SITE_PROBABILITIES": str(tmp_path / "north.csv"),
        },
        "south": {"FEDDIV_SITE_PROBABILITIES": str(tmp_path / "south.npz")},
        "east": {"FEDDIV_SITE_PROBABILITIES": str(tmp_path / "east.npz")},
    }
    with Processes(tmp_path / "logs", environment()) as processes:
        link = processes.start("superlink", [str(made.server / "superlink.sh")])
        processes.wait_until(
            lambda: answers(made, made.link), LIMITS.listening, link, "does not listen"
        )
        processes.ask("register", [str(made.server / "register.sh")], LIMITS.answer)
        nodes = {
            name: processes.start(
                name,
                [str(made.site(name) / "supernode.sh")],
                {**more, "FEDDIV_SITE_PORT": str(ports[place])},
            )
            for place, (name, more) in enumerate(own.items())
        }
        deadline = time.monotonic() + LIMITS.connected
        while online_nodes(processes, made, LIMITS) != len(own):
            assert time.monotonic() < deadline
            time.sleep(0.5)
        run = processes.start("audit", [str(made.server / "audit.sh")])
        processes.wait_until(
            lambda: run.code is not None, LIMITS.round, run, "did not end", ends=run
        )
        processes.finish(run)
        told = run.log.read_text()
        refused = nodes["east"].log.read_text()
    assert run.code == 0
    assert f"Finished: {made.server}/audit" in told
    assert "east: its data cannot be used: its log says why" in told
    assert refused.count("row 0 holds no probabilities") == 1
    assert not (made.site("east") / "site" / "labels.csv").exists()
    with (made.site("north") / "site" / "labels.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["sample"] for row in rows[:3]} == {names[row] for row in wrong}
    assert "data:image/" in (made.site("north") / "site" / "labels.html").read_text()
    with (made.site("south") / "site" / "labels.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["sample"] for row in rows[:50]} == {str(row) for row in range(50)}

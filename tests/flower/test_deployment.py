"""Real processes on loopback: a SuperLink, SuperNodes, TLS, node keys, and our own scripts."""

import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("flwr")

from tests.flower.trial import SETTINGS, lines

import feddiv
from feddiv.config.experiment import to_toml
from feddiv.config.reading import load_experiment
from feddiv.deploy.certificates import node_key
from feddiv.deploy.demo import Limits, answers, environment, free_ports, online_nodes
from feddiv.deploy.deployment import Deployment, init
from feddiv.deploy.processes import Failed, Kept, Processes
from feddiv.deploy.site_names import address

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc"),
]

SITES = ("north", "south")
LIMITS = Limits()
APP = b"feddiv.flower.warm_visits"
# An app whose first visit at a site raises, and whose later ones find out if anything of one before
# them is still there.
RAISES = """
from pathlib import Path

import torch
from flwr.clientapp import ClientApp

from feddiv.flower import client_app

app = ClientApp()
ours = client_app()


@app.train()
def train(message, context):
    if hasattr(torch, "visited"):
        raise RuntimeError("something is left of the visit before")
    torch.visited = True
    told = Path(context.node_config["site-path"]) / "raised"
    if not told.exists():
        told.touch()
        raise RuntimeError("on purpose")
    return ours(message, context)
"""
TRIAL = {**SETTINGS, "clients.count": 2, "rounds": 2, "evaluation.every": 2}


class Network:
    """A deployment whose sites act for the clients of a trial."""

    def __init__(self, folder: Path, processes: Processes, sites: tuple[str, ...] = SITES) -> None:
        port, *self.ports = free_ports(len(sites) + 2)
        self.processes, self.sites = processes, sites
        self.deployment: Deployment = init(folder / "net", sites, address(f"127.0.0.1:{port}"))
        server = self.deployment.server
        link = processes.start("superlink", [str(server / "superlink.sh")])
        processes.wait_until(
            lambda: answers(self.deployment, self.deployment.link),
            LIMITS.listening,
            link,
            "does not listen",
        )
        processes.ask("register", [str(server / "register.sh")], LIMITS.answer)
        self.nodes = [self.node(place) for place in range(len(sites))]
        self.wait(len(sites))

    def node(self, place: int) -> Kept:
        """Start a site's SuperNode by its script, for a client of the draw instead of own data."""
        site = self.deployment.site(self.sites[place])
        script = (site / "supernode.sh").read_text()
        trial = script.replace("data-path='$DATA'", f"partition-id={place}")
        assert trial != script
        (site / "trial.sh").write_text(trial)
        (site / "trial.sh").chmod(0o700)
        more = {"FEDDIV_SITE_DATA": str(site), "FEDDIV_SITE_PORT": str(self.ports[place])}
        return self.processes.start(self.sites[place], [str(site / "trial.sh")], more)

    def wait(self, count: int) -> None:
        deadline = time.monotonic() + LIMITS.connected
        while online_nodes(self.processes, self.deployment, LIMITS) != count:
            assert time.monotonic() < deadline
            time.sleep(0.5)

    def start(self, name: str, **settings: object) -> tuple[Kept, Path]:
        """Start a run of the trial by run.sh; its folder."""
        keys = {key.replace("__", "."): value for key, value in settings.items()}
        chosen = {**TRIAL, **keys, "federation.name": "flower"}
        server, out = self.deployment.server, self.deployment.folder / name
        (server / "experiment.toml").write_text(to_toml(load_experiment("quickstart", chosen)))
        run = self.processes.start(name, [str(server / "run.sh")], {"FEDDIV_RUN": str(out)})
        return run, out

    def run(self, name: str, **settings: object) -> feddiv.Run:
        """The same to its end."""
        run, _ = self.start(name, **settings)
        return self.finished(name, run)

    def finished(self, name: str, run: Kept) -> feddiv.Run:
        """Wait for the end of a run that was started."""
        self.processes.wait_until(
            lambda: run.code is not None, LIMITS.round, run, "did not end", ends=run
        )
        self.processes.finish(run)
        # A run that came to its end is read.
        return feddiv.resume(self.deployment.folder / name)


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    folder = tmp_path_factory.mktemp("deployment")
    with Processes(folder / "logs", environment()) as processes:
        yield Network(folder, processes)


def expected(folder: Path, **settings: object) -> str:
    keys = {key.replace("__", "."): value for key, value in settings.items()}
    run = feddiv.run("quickstart", {**TRIAL, **keys}, out=folder, workers=0)
    return str(run.summary["model_hash"])


def test_feddiv_gives_the_bits_of_the_local_engine(network: Network, tmp_path: Path) -> None:
    run = network.run("feddiv")
    assert run.summary["model_hash"] == expected(tmp_path / "local")
    for site in SITES:
        assert (network.deployment.site(site) / "site" / "labels.csv").is_file()
    # The node's installed package ran, not a copy in the app's bundle.
    home = str(Path(feddiv.__file__).parent)
    for log in (network.nodes[0].log, network.nodes[1].log):
        found = set(re.findall(r"feddiv \S+ from (\S+)", log.read_text()))
        assert found == {home}


@pytest.mark.full
@pytest.mark.parametrize("method", ["fedcorr", "dividemix"])
def test_other_methods_give_the_bits_of_the_local_engine(
    network: Network, tmp_path: Path, method: str
) -> None:
    run = network.run(method, method__name=method)
    assert run.summary["model_hash"] == expected(tmp_path / "local", method__name=method)


def test_visits_that_raise_and_a_killed_app_change_no_bits(
    network: Network, tmp_path: Path
) -> None:
    north, south = (app_process(node) for node in network.nodes)  # as the run before left them
    app = network.deployment.server / "app" / "feddiv_app" / "client_app.py"
    usual = app.read_text()
    app.write_text(RAISES)
    quick = {"method__name": "fedavg", "rounds": 1, "evaluation__every": 1}
    try:
        run, _ = network.start("disturbed", **quick)
        told = [network.deployment.site(site) / "site" / "raised" for site in SITES]
        meet(lambda: all(each.exists() for each in told), run)
        meet(lambda: descendants(north), run)
        visits = descendants(north)
        os.kill(north, signal.SIGKILL)
        # Its token, by which whoever has it can answer for the site, is no argument of it.
        assert b"--token" not in Path(f"/proc/{visits[0]}/cmdline").read_bytes()
        done = network.finished("disturbed", run)
    finally:
        app.write_text(usual)
    assert done.summary["model_hash"] == expected(tmp_path / "local", **quick)
    assert app_process(network.nodes[0]) != north
    assert app_process(network.nodes[1]) == south
    logs = [node.log.read_text() for node in network.nodes]
    assert [log.count("RuntimeError: on purpose") > 0 for log in logs] == [True, True]
    assert [log.count("exit code 137 and is started again") for log in logs] == [1, 0]
    assert not any("something is left" in log for log in logs)


def test_a_key_that_was_not_registered_is_refused(network: Network) -> None:
    site = network.deployment.site("north")
    key = node_key("stranger")
    (site / "stranger.key").write_bytes(key.private)
    (site / "stranger.key").chmod(0o600)
    script = (site / "trial.sh").read_text().replace("node.key", "stranger.key")
    refused(network, "stranger", script)


def test_plaintext_is_refused(network: Network) -> None:
    script = (network.deployment.site("north") / "trial.sh").read_text()
    plain = script.replace('--root-certificates "$HERE/ca.crt"', "--insecure")
    plain = plain.replace('--auth-supernode-private-key "$HERE/node.key"', "")
    assert "--insecure" in plain
    refused(network, "plaintext", plain)


def refused(network: Network, name: str, script: str) -> None:
    """A SuperNode by this script ends, or keeps failing to connect; nobody new is online."""
    site = network.deployment.site("north")
    (site / f"{name}.sh").write_text(script)
    (site / f"{name}.sh").chmod(0o700)
    port = {"FEDDIV_SITE_DATA": str(site), "FEDDIV_SITE_PORT": str(network.ports[2])}
    node = network.processes.start(name, [str(site / f"{name}.sh")], port)
    deadline = time.monotonic() + 12
    while node.code is None and time.monotonic() < deadline:
        time.sleep(0.5)
    log = node.log.read_text(errors="replace")
    stop(network, node)
    assert online_nodes(network.processes, network.deployment, LIMITS) == len(SITES), log
    assert re.search(r"2004|[Uu]nauth|not registered|refused|SSL|TLS|[Ff]ailed|[Ee]rror", log), log


def stop(network: Network, kept: Kept) -> None:
    """End it and all that it started."""
    if kept.keeper.stdin is not None:
        kept.keeper.stdin.close()
    kept.keeper.wait(30)
    with suppress(Failed):
        network.processes.finish(kept)


def meet(condition: Callable[[], object], run: Kept) -> None:
    """Wait for something that may be over soon, while a run goes on."""
    while not condition():
        assert run.code is None, run.log.read_text()
        time.sleep(0.005)


def app_process(node: Kept) -> int:
    """The process of a site that has the app loaded; copies of it, the visits, are below it."""
    for pid in descendants(node.keeper.pid):
        if APP in Path(f"/proc/{pid}/cmdline").read_bytes():
            return pid
    raise AssertionError(f"{node.name} has none")


def descendants(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children")
    try:
        found = [int(child) for child in children.read_text().split()]
    except OSError:
        return []
    return [*found, *(deeper for child in found for deeper in descendants(child))]


@pytest.mark.full
def test_a_secure_sum_over_three_processes(tmp_path: Path) -> None:
    private = {"clients__count": 3, "privacy__filter": "sum_only"}
    with Processes(tmp_path / "logs", environment()) as processes:
        network = Network(tmp_path, processes, (*SITES, "west"))
        run = network.run("private", **private)
        secret = network.deployment.site("west") / "site" / "secret"
        assert secret.stat().st_mode & 0o077 == 0
    assert run.summary["privacy"]["filter"] == "sum_only"
    assert run.summary["model_hash"] == expected(tmp_path / "local", **private)


@pytest.mark.full
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_visit_that_is_killed_is_missed_and_the_site_takes_part_again(
    network: Network, number: signal.Signals
) -> None:
    name = f"crashed-{number.name}"
    run, out = network.start(
        name, rounds=4, evaluation__every=1, federation__quorum=0.5, train__epochs=2
    )
    journal, app = out / "rounds.jsonl", app_process(network.nodes[1])
    meet(journal.exists, run)
    meet(lambda: descendants(app), run)
    [visit] = descendants(app)
    time.sleep(0.2)  # it has its message by then: for one that was not fetched Flower says nothing
    os.kill(visit, number)
    network.finished(name, run)
    rounds = lines(journal)
    assert any(1 in line["missing"] for line in rounds)
    assert rounds[-1]["missing"] == []
    assert app_process(network.nodes[1]) == app
    assert f"a visit was ended by {number.name}" in network.nodes[1].log.read_text()


@pytest.mark.full
def test_a_site_that_is_killed_in_mid_round_takes_part_again(network: Network) -> None:
    run, out = network.start(
        "killed", rounds=14, evaluation__every=1, federation__quorum=0.5, train__epochs=2
    )
    network.processes.wait_until(
        lambda: (out / "rounds.jsonl").exists(), LIMITS.round, run, "has no round", ends=run
    )
    node = network.nodes[1]
    for pid in descendants(node.keeper.pid):
        os.kill(pid, signal.SIGKILL)
    node.keeper.wait(30)
    with pytest.raises(Failed):
        network.processes.finish(node)

    def missed() -> bool:
        return any(1 in line["missing"] for line in lines(out / "rounds.jsonl"))

    network.processes.wait_until(missed, LIMITS.round, run, "does not miss it", ends=run)
    network.nodes[1] = network.node(1)
    network.processes.wait_until(
        lambda: run.code is not None, LIMITS.round, run, "did not end", ends=run
    )
    network.processes.finish(run)
    rounds = lines(out / "rounds.jsonl")
    assert any(1 in line["missing"] for line in rounds)
    assert rounds[-1]["missing"] == []
    told = [line for line in lines(out / "clients.jsonl") if line.get("client") == 1]
    assert any("missing" in line for line in told)
    assert "divergence" in told[-1]

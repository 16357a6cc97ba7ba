"""`feddiv deploy demo`: a server and three sites on one machine, over TLS, from start to end.

It writes a deployment as `deploy init` does, and starts the very scripts that init writes.
"""

import csv
import json
import os
import shutil
import socket
import ssl
import sys
import sysconfig
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import tomli_w

from feddiv.audits.labels_file import LABELS
from feddiv.core.errors import UserError
from feddiv.deploy.demo_sites import DemoData, DemoSite, write_demo_data
from feddiv.deploy.demo_stock import STOCKS, DemoKind
from feddiv.deploy.deployment import CONNECTION, Deployment, absolute, init, usable
from feddiv.deploy.processes import Failed, Kept, Processes
from feddiv.deploy.site_names import ServerAddress

_HERE = ip_address("127.0.0.1")
_SYSTEM = ("/usr/local/sbin", "/usr/sbin")  # where nginx is, often off the PATH of users

Say = Callable[[str], None]


@dataclass(frozen=True)
class Limits:
    """Seconds to wait; generous, because the machine may be busy and each process imports much."""

    listening: float = 90
    answer: float = 120  # of one of Flower's commands
    connected: float = 120
    round: float = 900  # the run itself gives up on sites sooner; this is for the server


@dataclass(frozen=True)
class Audited:
    """A site's list of its labels, and how good it is."""

    site: DemoSite
    file: Path
    flagged: int
    found: int  # of the wrong ones


@dataclass(frozen=True)
class DemoResult:
    """How the demonstration ended."""

    run: Path
    accuracy: float
    audits: tuple[Audited, ...]
    seconds: float


def demo(
    out: Path | None,
    rounds: int,
    say: Say,
    limits: Limits | None = None,
    *,
    proxy: bool = False,
    kind: DemoKind = "images",
) -> DemoResult:
    """Run FedDiv between three sites; whatever happens, no process is left."""
    if sys.platform == "win32":
        raise UserError("deploy demo: needs Linux or macOS, because Flower's nodes do")
    if proxy and shutil.which("nginx", path=environment()["PATH"]) is None:
        raise UserError("--proxy: nginx is not installed (1.19.5 or later)")
    begun, limits = time.monotonic(), limits or Limits()
    stock = STOCKS[kind]()
    folder = _made(out)
    port, inner, *site_ports = free_ports(5)
    data = write_demo_data(folder / "data", stock)
    sites = tuple(site.name for site in data.sites)
    address = ServerAddress(_HERE, port)
    deployment = init(folder / "deployment", sites, address, inner if proxy else None)
    _fill_in(deployment.server / "experiment.toml", data, rounds)
    for site in data.sites:
        say(f"{site.name}: {site.samples} {stock.what}, {len(site.wrong)} with a wrong label")

    with Processes(folder / "logs", environment()) as processes:
        _start(processes, deployment, data, site_ports, limits)
        by = ", through nginx" if deployment.proxied else ""
        say(f"{len(sites)} sites connected to {address} over TLS with their keys{by}")
        run = _train(processes, deployment, rounds, limits, say)
        say("stopping the server and the sites")
    summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    audits = tuple(_audited(site, _state(deployment, site)) for site in data.sites)
    seconds = time.monotonic() - begun
    return DemoResult(run, float(summary["last_test_accuracy"]), audits, seconds)


def _made(out: Path | None) -> Path:
    """The folder that is wanted, or a new one under runs/ named after the time."""
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    wanted = usable(out) if out else absolute(Path("runs") / f"deploy-demo-{stamp}")
    folder, again = wanted, 1
    try:
        while not out and folder.exists():  # another began in the same second
            again += 1
            folder = wanted.with_name(f"{wanted.name}-{again}")
        folder.mkdir(parents=True, exist_ok=out is not None)
    except OSError as problem:
        raise UserError(f"{folder}: cannot be written to: {problem.strerror}") from None
    return folder


def _start(
    processes: Processes, deployment: Deployment, data: DemoData, ports: list[int], limits: Limits
) -> None:
    """SuperLink, registration, SuperNodes: returns when all sites are connected."""
    server = deployment.server
    link = processes.start("superlink", [str(server / "superlink.sh")])
    processes.wait_until(
        lambda: answers(deployment, deployment.link),
        limits.listening,
        link,
        f"did not listen on {deployment.link}",
    )
    if deployment.proxied:
        front = processes.start("proxy", [str(server / "proxy.sh")])
        processes.wait_until(
            lambda: answers(deployment, deployment.address),
            limits.listening,
            front,
            f"did not listen on {deployment.address}",
        )
    processes.ask("register", [str(server / "register.sh")], limits.answer)
    nodes = [
        processes.start(
            site.name,
            [str(deployment.site(site.name) / "supernode.sh")],
            {
                "FEDDIV_SITE_DATA": str(site.data),
                "FEDDIV_SITE_STATE": str(_state(deployment, site)),
                "FEDDIV_SITE_PORT": str(port),
            },
        )
        for site, port in zip(data.sites, ports, strict=True)
    ]
    _wait_for_nodes(processes, deployment, nodes, limits)


def _train(
    processes: Processes, deployment: Deployment, rounds: int, limits: Limits, say: Say
) -> Path:
    """`flwr run` by run.sh, with a line for each round; gives the folder of the run."""
    run = deployment.server / "run"
    script = str(deployment.server / "run.sh")
    following = processes.start("run", [script], {"FEDDIV_RUN": str(run)})
    journal, told, last = run / "rounds.jsonl", 0, time.monotonic()
    while following.code is None:
        processes.check(following)
        for line in _complete_lines(journal, told):
            told, last = told + 1, time.monotonic()
            say(_progress(json.loads(line), rounds))
        if time.monotonic() - last > limits.round:
            raise Failed(
                f"no round ended within {limits.round:g} s; the run's log: {following.log}"
            )
        time.sleep(0.2)
    for line in _complete_lines(journal, told):
        say(_progress(json.loads(line), rounds))
    processes.finish(following)
    return run


def _wait_for_nodes(
    processes: Processes, deployment: Deployment, nodes: list[Kept], limits: Limits
) -> None:
    """Ask the SuperLink who is online, as the server's operator would."""
    deadline = time.monotonic() + limits.connected
    while (online := online_nodes(processes, deployment, limits)) != len(nodes):
        if time.monotonic() > deadline:
            raise Failed(
                f"only {online} of {len(nodes)} sites connected within "
                f"{limits.connected:g} s; their logs: {', '.join(str(node.log) for node in nodes)}"
            )


def online_nodes(processes: Processes, deployment: Deployment, limits: Limits) -> int:
    """How many SuperNodes the SuperLink holds to be online."""
    home = {"FLWR_HOME": str(deployment.server / "flwr")}
    command = ["flwr", "supernode", "list", CONNECTION, "--format", "json"]
    said = processes.ask("nodes", command, limits.answer, home)
    return sum(node["status"] == "online" for node in json.loads(said)["nodes"])


def _fill_in(file: Path, data: DemoData, rounds: int) -> None:
    """The experiment that init writes, with what an engineer would fill in."""
    experiment = tomllib.loads(file.read_text(encoding="utf-8"))
    stock = data.stock
    experiment["data"] = {
        "source": experiment["data"]["source"],
        "classes": list(stock.classes),
        "path": str(data.test),
        **stock.data,
    }
    settings: dict[str, dict[str, Any]] = {
        "model": {"name": stock.model},
        "evaluation": {"name": "central"},
        "train": {"epochs": 5, "batch": 10, "lr": 0.03},
        "warmup": {"iterations": 1},
        "federation": {"quorum": 1.0, "round_timeout": 240},
    }
    for section, values in settings.items():
        experiment[section] |= values
    experiment["description"] = "FedDiv between three sites on one machine"
    experiment["rounds"] = rounds
    file.write_text(tomli_w.dumps(experiment), encoding="utf-8")


def environment() -> dict[str, str]:
    """This process's, with the programs beside this Python first, one torch thread, quick polls."""
    scripts = sysconfig.get_path("scripts")
    return os.environ | {
        "PATH": os.pathsep.join([scripts, os.environ.get("PATH", os.defpath), *_SYSTEM]),
        "OMP_NUM_THREADS": "1",
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",
        "NO_COLOR": "1",
    }


def free_ports(count: int) -> list[int]:
    """Ports that nobody uses now; all held at once, so that they differ."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((str(_HERE), 0))
        return [each.getsockname()[1] for each in sockets]


def answers(deployment: Deployment, address: ServerAddress) -> bool:
    """Whether a server answers there that holds the key of our certificate."""
    context = ssl.create_default_context(cafile=deployment.server / "ca.crt")
    host, port = str(address.host), address.port
    try:
        with (
            socket.create_connection((host, port), timeout=5) as plain,
            context.wrap_socket(plain, server_hostname=host),
        ):
            return True
    except OSError:  # ssl.SSLError is one
        return False


def _state(deployment: Deployment, site: DemoSite) -> Path:
    """Where a site keeps its notes: the place that its script takes by itself."""
    return deployment.site(site.name) / "site"


def _complete_lines(journal: Path, skip: int) -> Iterator[str]:
    """New lines; one that is being written is left for the next time."""
    if journal.exists():
        lines = journal.read_text(encoding="utf-8").split("\n")[:-1]
        yield from lines[skip:]


def _progress(record: dict[str, Any], rounds: int) -> str:
    accuracy = record.get("test_accuracy")
    measured = "" if accuracy is None else f": test accuracy {accuracy:.1%}"
    return f"round {record['round']} of {rounds}{measured}"


def _audited(site: DemoSite, state: Path) -> Audited:
    file = state / LABELS
    if not file.is_file():
        raise Failed(f"{site.name} wrote no label audit to {file}")
    with file.open(encoding="utf-8", newline="") as opened:
        flagged = [
            row["sample"] for row in csv.DictReader(opened) if row["is_label_issue"] == "True"
        ]
    return Audited(site, file, len(flagged), sum(path in site.wrong for path in flagged))

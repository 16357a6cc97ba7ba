"""Keys at a real SuperLink: registered, replaced, taken away."""

import json
import os
import sys
from collections.abc import Iterator

import pytest

pytest.importorskip("flwr")

from feddiv.deploy import demo as shown
from feddiv.deploy.certificates import node_key
from feddiv.deploy.folder import CONNECTION, Deployment, init
from feddiv.deploy.names import address
from feddiv.deploy.processes import Failed, Processes

LIMITS = shown.Limits()


@pytest.fixture
def running(tmp_path) -> Iterator[tuple[Deployment, Processes]]:
    (port,) = shown.free_ports(1)
    made = init(tmp_path / "deployment", ["north", "south"], address(f"127.0.0.1:{port}"))
    place = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with Processes(tmp_path / "logs", shown.environment() | place) as processes:
        link = processes.start("superlink", [str(made.server / "superlink.sh")])
        processes.wait_until(
            lambda: shown.answers(made, made.link), LIMITS.listening, link, "is silent"
        )
        yield made, processes


def test_a_replaced_key_loses_its_rights_and_a_site_can_leave(running):
    made, processes = running

    def ask(script: str, *arguments: str) -> list[str]:
        command = [str(made.server / script), *arguments]
        return processes.ask(script, command, LIMITS.answer).splitlines()

    def registered() -> set[str]:
        home = {"FLWR_HOME": str(made.server / "flwr")}
        command = ["flwr", "supernode", "list", CONNECTION, "--format", "json"]
        said = json.loads(processes.ask("nodes", command, LIMITS.answer, home))
        return {str(n["node-id"]) for n in said["nodes"] if n["status"] != "unregistered"}

    def number(name: str) -> str:
        return (made.server / "keys" / f"{name}.id").read_text().strip()

    assert ask("register.sh") == ["north: registered", "south: registered"]
    first = {number("north"), number("south")}
    assert registered() == first
    assert ask("register.sh") == ["north: was registered before", "south: was registered before"]
    assert {number("north"), number("south")} == first

    (made.server / "keys" / "north.pub").write_bytes(node_key("north").public)
    assert ask("register.sh")[0] == "north: registered, in place of its old key"
    assert registered() == {number("north"), number("south")} != first

    assert ask("unregister.sh", "south") == ["south: unregistered"]
    assert registered() == {number("north")}
    assert not (made.server / "keys" / "south.pub").exists()
    with pytest.raises(Failed):
        ask("unregister.sh", "south")
    log = (made.folder.parent / "logs" / "unregister.sh.log").read_text()
    assert "no site 'south' was registered" in log

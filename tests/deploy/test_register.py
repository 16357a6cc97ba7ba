"""Keys at a real SuperLink: registered, replaced, taken away."""

import json
import os
import shutil
import sys
from collections.abc import Iterator

import pytest

pytest.importorskip("flwr")

from feddiv.deploy import demo as shown
from feddiv.deploy.certificates import node_key
from feddiv.deploy.deployment import CONNECTION, Deployment, init
from feddiv.deploy.processes import Failed, Processes
from feddiv.deploy.site_names import address

pytestmark = pytest.mark.slow

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
        (known,) = (made.server / "keys" / "registered").glob(f"{name}=*")
        return known.name.partition("=")[2]

    def log(script: str) -> str:
        return (made.folder.parent / "logs" / f"{script}.log").read_text()

    assert ask("register.sh") == ["north: registered", "south: registered"]
    first = {number("north"), number("south")}
    assert registered() == first
    assert ask("register.sh") == ["north: was registered before", "south: was registered before"]
    assert {number("north"), number("south")} == first

    key = made.server / "keys" / "north.pub"
    old = key.read_bytes()
    key.write_bytes(node_key("north").public)
    assert ask("register.sh")[0] == "north: registered, its old key is no longer"
    assert registered() == {number("north"), number("south")} != first
    new = key.read_bytes()
    key.write_bytes(old)  # Flower has it on record, without rights
    with pytest.raises(Failed):
        ask("register.sh")
    assert "north: not registered: this key was taken away" in log("register.sh")
    assert registered() == {number("south")}
    key.write_bytes(node_key("north").public)
    assert ask("register.sh")[0] == "north: registered"
    assert new != key.read_bytes()

    assert ask("unregister.sh", "south") == ["south: unregistered"]
    assert registered() == {number("north")}
    assert not (made.server / "keys" / "south.pub").exists()
    with pytest.raises(Failed):
        ask("unregister.sh", "south")
    assert "no site 'south' was registered" in log("unregister.sh")


def test_a_database_that_is_gone_is_filled_again(running):
    made, processes = running
    known = made.server / "keys" / "registered"
    known.mkdir(mode=0o700)
    (known / "north=17").write_bytes((made.server / "keys" / "north.pub").read_bytes())
    (known / "south=18").write_bytes(node_key("south").public)
    said = processes.ask("register.sh", [str(made.server / "register.sh")], LIMITS.answer)
    assert said == "north: registered\nsouth: registered, its old key is no longer\n"
    assert sorted(file.name.partition("=")[0] for file in known.iterdir()) == ["north", "south"]
    assert not {"north=17", "south=18"} & {file.name for file in known.iterdir()}


def test_a_key_that_cannot_be_taken_away_now_is_taken_away_the_next_time(running, tmp_path):
    made, processes = running
    script, broken = str(made.server / "register.sh"), tmp_path / "bin"
    processes.ask("register.sh", [script], LIMITS.answer)
    (made.server / "keys" / "north.pub").write_bytes(node_key("north").public)
    broken.mkdir()
    real = shutil.which("flwr", path=shown.environment()["PATH"])
    (broken / "flwr").write_text(
        f'#!/bin/sh\n[ "$2" != unregister ] || {{ echo no >&2; exit 1; }}\nexec {real} "$@"\n'
    )
    (broken / "flwr").chmod(0o700)
    path = {"PATH": f"{broken}{os.pathsep}{shown.environment()['PATH']}"}
    with pytest.raises(Failed):
        processes.ask("register.sh", [script], LIMITS.answer, path)
    said = processes.ask("register.sh", [script], LIMITS.answer)
    assert said.splitlines()[0] == "north: was registered before, its old key is no longer"

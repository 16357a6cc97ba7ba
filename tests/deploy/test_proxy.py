"""nginx in front of the SuperLink: what sites call gets through, and nothing else."""

import http.client
import os
import shutil
import socket
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("flwr")

from feddiv.core.errors import UserError
from feddiv.deploy import demo as shown
from feddiv.deploy.deployment import Deployment, init
from feddiv.deploy.processes import Processes
from feddiv.deploy.site_names import ServerAddress, address

LIMITS = shown.Limits()
nginx = pytest.mark.skipif(
    shutil.which("nginx", path=shown.environment()["PATH"]) is None, reason="nginx is not installed"
)


def status(deployment: Deployment, where: ServerAddress, path: str) -> int:
    """What an empty POST gets there, over TLS."""
    context = ssl.create_default_context(cafile=deployment.site("north") / "ca.crt")
    connection = http.client.HTTPSConnection(str(where.host), where.port, context=context)
    connection.putrequest("POST", path, skip_accept_encoding=True)
    connection.putheader("Content-Length", "0")
    connection.endheaders()
    return connection.getresponse().status


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    folder = tmp_path_factory.mktemp("proxy")
    port, inner = shown.free_ports(2)
    made = init(folder / "deployment", ["north"], address(f"127.0.0.1:{port}"), inner)
    place = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with Processes(folder / "logs", shown.environment() | place) as processes:
        for name, where in (("superlink", made.link), ("proxy", made.address)):
            kept = processes.start(name, [str(made.server / f"{name}.sh")])
            processes.wait_until(
                lambda where=where: shown.answers(made, where), LIMITS.listening, kept, "is silent"
            )
        yield made


@nginx
def test_what_sites_call_reaches_the_superlink(running):
    path = "/v1/fleet/pull-messages"
    direct = status(running, running.link, path)
    assert status(running, running.address, path) == direct
    assert direct not in (403, 404)


@nginx
@pytest.mark.parametrize(
    "path",
    [
        "/v1/control/list-runs",
        "/v1/runtime/pull-task-input",
        "/v1/fleet/../control/list-runs",
        "/v1/fleet/..%2fcontrol/list-runs",
        "/v1/fleet/%2e%2e/control/list-runs",
        "//v1/control/list-runs",
        "/v1/control/list-runs%3f/../../fleet/pull-messages",
        "/v1/control/list-runs%23/../../fleet/pull-messages",
        "/v1/control/../fleet/pull-messages",
        "//v1/fleet/pull-messages",
        "/v1/%66leet/pull-messages",
        "/v1/fleet/pull-messages?a=b",
        "/v1/fleet/",
        "/v1/fleet",
        "/V1/control/list-runs",
        "/",
        "/docs",
    ],
)
def test_nothing_else_does(running, path):
    assert status(running, running.address, path) == 403


@nginx
def test_the_operator_on_the_servers_machine_is_answered(running):
    assert status(running, running.link, "/v1/control/list-runs") not in (403, 404)
    with pytest.raises(ConnectionRefusedError):  # the SuperLink itself hears nobody else
        socket.create_connection(("127.0.0.2", running.link.port), timeout=5).close()  # of Linux


@nginx
def test_a_strangers_body_is_not_taken_in(running):
    context = ssl.create_default_context(cafile=running.server / "ca.crt")
    port = running.address.port
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=context)
    connection.putrequest("POST", "/v1/fleet/push-object")
    connection.putheader("Content-Length", str(10**9))
    connection.endheaders()
    assert connection.getresponse().status == 413


@nginx
def test_the_superlinks_log_names_who_called(running):
    context = ssl.create_default_context(cafile=running.server / "ca.crt")
    port = running.address.port
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=context)
    connection.request("POST", "/v1/fleet/get-run", headers={"X-Forwarded-For": "203.0.113.66"})
    connection.getresponse().read()
    log = (running.folder.parent / "logs" / "superlink.log").read_text()
    assert "/v1/fleet/get-run" in log
    assert "203.0.113.66" not in log


@nginx
def test_plaintext_is_refused(running):
    connection = http.client.HTTPConnection("127.0.0.1", running.address.port)
    connection.request("POST", "/v1/fleet/pull-messages")
    assert connection.getresponse().status == 400


@nginx
@pytest.mark.full
def test_sites_train_through_it(tmp_path):
    said: list[str] = []
    outcome = shown.demo(tmp_path / "shown", 2, said.append, proxy=True)
    assert any(line.endswith("with their keys, through nginx") for line in said)
    assert outcome.accuracy > 0.3  # a guess has 0.1
    assert all(audit.file.is_file() for audit in outcome.audits)


@pytest.mark.parametrize(
    ("where", "outside"),
    [
        ("superlink.example.org:8443", "listen 0.0.0.0:8443 ssl;"),
        ("192.0.2.7:65535", "listen 0.0.0.0:65535 ssl;"),
        ("[2001:db8::7]:8443", "listen [::]:8443 ipv6only=off ssl;"),
        ("localhost:8443", "listen 127.0.0.1:8443 ssl;"),
    ],
)
def test_the_superlink_stands_behind_it(tmp_path, where, outside):
    found = address(where)
    made = init(tmp_path / "d", ["north"], found, found.inner)
    inner = 65534 if found.port == 65535 else 8444
    assert (made.proxied, str(made.link)) == (True, f"127.0.0.1:{inner}")
    conf = (made.server / "proxy" / "nginx.conf").read_text()
    assert outside in conf
    assert f"proxy_pass https://127.0.0.1:{inner};" in conf
    assert "@" not in conf
    script = (made.server / "superlink.sh").read_text()
    assert f'LISTEN="127.0.0.1"\nPORT="{inner}"' in script
    assert f'address = "127.0.0.1:{inner}"' in (made.server / "flwr" / "config.toml").read_text()
    assert f'--superlink "{found}"' in (made.site("north") / "supernode.sh").read_text()
    assert "`server/proxy.sh` (keep both running)" in (made.folder / "README.md").read_text()


def test_without_nginx_one_line_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(shown, "_SYSTEM", ())
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=r"^--proxy: nginx is not installed"):
        shown.demo(tmp_path / "shown", 1, print, proxy=True)
    assert list(Path(tmp_path).iterdir()) == []

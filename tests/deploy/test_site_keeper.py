"""A site's SuperNode and the app's process beside it, as the site's script starts them."""

import os
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("flwr")

from tests.deploy.marked import Marked

from feddiv.core.errors import UserError
from feddiv.deploy.demo import free_ports
from feddiv.deploy.keeper import GRACE
from feddiv.deploy.site_keeper import refuse
from feddiv.flower.warm_visits import POLL

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("terminal"),
    pytest.mark.skipif(sys.platform != "linux", reason="forks, and looks into /proc"),
]

APP = "feddiv.flower.warm_visits"
COMMAND = "from feddiv.cli import main; main()"


@pytest.fixture
def marked(environment: dict[str, str]) -> Iterator[Marked]:
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
    quiet = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
    with Marked(environment | quiet | {"PATH": path}) as marked:
        yield marked


class Site:
    """A site whose server is not there: its SuperNode goes on trying."""

    def __init__(
        self,
        marked: Marked,
        *arguments: str,
        by: tuple[str, ...] = (),
        port: int = 0,
        **environment: str,
    ) -> None:
        free, nobody = free_ports(2)
        self.port = port or free
        own = ["--port", str(self.port), "--superlink", f"127.0.0.1:{nobody}", "--insecure"]
        self.process = subprocess.Popen(
            [*by, sys.executable, "-c", COMMAND, "deploy", "supernode", *own, *arguments],
            env=marked.environment | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def ended(self) -> tuple[int, str]:
        """Its exit code and what it said, when it is over."""
        said, _ = self.process.communicate(timeout=60)
        return self.process.returncode, said

    def listens(self) -> bool:
        """Whether the SuperNode is up."""
        with socket.socket() as calling:
            return calling.connect_ex(("127.0.0.1", self.port)) == 0


def until(condition: Callable[[], object], within: float = 60) -> bool:
    patience = time.monotonic() + within
    while not (met := condition()) and time.monotonic() < patience:
        time.sleep(0.05)
    return bool(met)


def other(marked: Marked, ended: int) -> bool:
    return any(process != ended for process in marked.find(program=APP))


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        signal.SIGKILL,
        pytest.param(signal.SIGINT, marks=pytest.mark.full),
        pytest.param(signal.SIGHUP, marks=pytest.mark.full),
    ],
)
def test_however_it_is_ended_nothing_is_left(marked: Marked, number: signal.Signals) -> None:
    site = Site(marked)
    assert until(lambda: site.listens() and marked.find(program=APP))
    site.process.send_signal(number)
    code, _ = site.ended()
    if number == signal.SIGKILL:
        assert until(lambda: not marked.find(), GRACE)  # nobody waits for those that die with it
    else:
        assert marked.find() == []
        assert code in (0, 128 + signal.SIGTERM)  # Flower's: it listens before it takes signals


def test_under_nohup_it_outlives_its_terminal(marked: Marked) -> None:
    site = Site(marked, by=("nohup",))
    assert until(site.listens)
    site.process.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        site.process.wait(1)
    site.process.send_signal(signal.SIGTERM)
    site.ended()
    assert marked.find() == []


def test_the_apps_process_is_started_again_and_ends_with_the_supernode(marked: Marked) -> None:
    site = Site(marked)
    assert until(lambda: marked.find(program=APP))
    [first] = marked.find(program=APP)
    os.kill(first, signal.SIGKILL)
    assert until(lambda: other(marked, first))
    [supernode] = marked.find(program="flower-supernode")
    os.kill(supernode, signal.SIGKILL)
    code, said = site.ended()
    assert marked.find() == []
    assert code == 128 + signal.SIGKILL
    assert "feddiv: the app's process ended with exit code 137 and is started again\n" in said


FAKE = f"""#!{sys.executable}
import ctypes, pathlib, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

with pathlib.Path(__file__).with_name("told").open("a") as told:
    print(*sys.argv[1:], file=told)
if "--isolation" not in sys.argv:
    adopts = ctypes.c_int(7)
    ctypes.CDLL(None).prctl(37, ctypes.byref(adopts))  # PR_GET_CHILD_SUBREAPER
    sys.exit(adopts.value)
{{isolated}}
"""
# It knows no tasks.
NO_TASKS = """
class Answer(BaseHTTPRequestHandler):
    def do_POST(self):
        self.send_error(404)
    def log_message(self, *arguments):
        pass
port = int(sys.argv[sys.argv.index("--port") + 1])
HTTPServer(("127.0.0.1", port), Answer).serve_forever()
"""
ALONE = "feddiv: every message starts a process of its own here, as Flower does it by itself\n"


@pytest.fixture
def fake(marked: Marked, tmp_path: Path) -> Callable[[str], dict[str, str]]:
    """A SuperNode of another Flower, first on the PATH; what it does with `--isolation`."""

    def write(isolated: str) -> dict[str, str]:
        supernode = tmp_path / "flower-supernode"
        supernode.write_text(FAKE.format(isolated=isolated))
        supernode.chmod(0o700)
        return {"PATH": os.pathsep.join([str(tmp_path), marked.environment["PATH"]])}

    return write


def test_where_tasks_cannot_be_taken_flower_does_it_by_itself(
    marked: Marked, tmp_path: Path, fake: Callable[[str], dict[str, str]]
) -> None:
    code, said = Site(marked, "--node-config", "a='b c'", **fake(NO_TASKS)).ended()
    assert code == 0  # nor is it left with orphans that it does not know of
    assert marked.find() == []
    first, second = (tmp_path / "told").read_text().splitlines()
    assert first == f"{second} --isolation process"
    assert "--insecure --node-config a='b c' --host 127.0.0.1 --port" in second
    reason, then = said.splitlines(keepends=True)
    assert "tasks cannot be taken from this Flower: HTTPStatusError: Client error '404" in reason
    assert then == ALONE


def test_where_the_supernode_does_not_know_the_option_either(
    marked: Marked, fake: Callable[[str], dict[str, str]]
) -> None:
    assert Site(marked, **fake("sys.exit(2)")).ended() == (0, ALONE)
    code, said = Site(marked, **fake("sys.exit(1)")).ended()  # any other end is its own matter
    assert (code, said) == (1, "")


def test_where_the_apps_process_does_not_last_either(
    marked: Marked, tmp_path: Path, fake: Callable[[str], dict[str, str]]
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        f"import os, sys\nif any({APP!r} in each for each in sys.orig_argv):\n    os._exit(7)\n"
    )
    path = os.pathsep.join([str(tmp_path), marked.environment["PYTHONPATH"]])
    code, said = Site(marked, PYTHONPATH=path, **fake(NO_TASKS)).ended()
    assert code == 0
    ended = "feddiv: the app's process ended with exit code 7"
    again = f"{ended} and is started again\n"
    assert said == again * 4 + f"{ended}, as 5 in a row did soon\n" + ALONE


def test_a_pause_that_is_none_is_refused_before_anything_starts(marked: Marked) -> None:
    code, said = Site(marked, **{POLL: "nan"}).ended()
    assert code == 2
    assert said == f"feddiv: error: {POLL}=nan: has to be a number of seconds from 0.01 to 60\n"


@pytest.mark.parametrize(
    "option",
    [
        "--ssl-certfile=a.crt",
        "--ssl-keyfile",
        "--ssl-ca-certfile",
        "--ssl-ca",
        "--appio-ssl-certfile",
        "--allow-runtime-dependency-installation",
        "--isolation=process",
    ],
)
def test_an_option_that_cannot_be_kept_is_refused(option: str) -> None:
    with pytest.raises(UserError) as refused:
        refuse(["--superlink", "fl.example.org:8443", option, "a"])
    assert str(refused.value) == (
        f"{option.split('=')[0]}: not with feddiv deploy supernode; start flower-supernode itself "
        "for it"
    )


def test_other_options_are_flowers_own_matter(marked: Marked) -> None:
    own = ["--insecure", "--superlink", "a:1", "--auth-supernode-private-key", "k", "--node-config"]
    refuse([*own, "a=1", "--root-certificates", "c", "--max-retries=3", "-V"])
    code, said = Site(marked, "--ssl-keyfile", "a.key").ended()
    assert (code, said.count("\n")) == (2, 1)


def taken(port: int) -> str:
    return (
        f"feddiv: error: port {port}: Address already in use; give a free one with --port, or "
        "FEDDIV_SITE_PORT for supernode.sh\n"
    )


def test_a_port_that_somebody_listens_on_is_refused(marked: Marked) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        site = Site(marked, port=other.getsockname()[1])
        assert site.ended() == (2, taken(site.port))
    assert marked.find() == []


def test_of_two_sites_that_start_at_once_one_is_refused(
    marked: Marked, fake: Callable[[str], dict[str, str]]
) -> None:
    late = fake("import time; time.sleep(600)")  # neither listens yet
    one = Site(marked, **late)
    assert until(lambda: marked.find(program="flower-supernode"))
    assert Site(marked, port=one.port, **late).ended() == (2, taken(one.port))
    assert marked.find(program=APP) == []  # there is nobody yet whom it could ask
    one.process.terminate()
    one.ended()
    assert marked.find() == []


def test_without_flower_on_the_path_one_line_says_so(marked: Marked) -> None:
    code, said = Site(marked, PATH="/usr/bin:/bin").ended()
    assert code == 2
    assert said.strip().endswith(
        "flower-supernode is not on the PATH; activate the environment of feddiv"
    )

"""Tasks are taken from a SuperNode's Runtime API; its answers here are Flower's own messages."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("flwr")

from flwr.proto.runtime_pb2 import AcquireTaskRequest, AcquireTaskResponse
from flwr.proto.task_pb2 import Task
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supernode.cli import flwr_clientapp

import feddiv
from feddiv.core.errors import UserError
from feddiv.deploy.demo import free_ports
from feddiv.flower import warm_visits
from feddiv.flower.warm_visits import POLL, PROGRAM, UNSUPPORTED, Tasks, Unsupported, pause, program

APP = "feddiv.flower.warm_visits"
NOTHING = (200, AcquireTaskResponse())
A_TASK = (200, AcquireTaskResponse(task=Task(task_id=7), token="secret"))


class Runtime(ThreadingHTTPServer):
    """Gives its answers one after the other, and keeps what it was asked."""

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Answer)
        self.answers: list[tuple[int, AcquireTaskResponse | bytes]] = []
        self.asked: list[AcquireTaskRequest] = []
        self.visited: list[str] = []  # what a visit called
        self.over = threading.Event()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class Answer(BaseHTTPRequestHandler):
    server: Runtime

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        called = self.path.rpartition("/")[2]
        if called != "acquire-task":
            self.server.visited.append(called)
            self.server.over.wait(60)  # a visit without an end
            return
        self.server.asked.append(AcquireTaskRequest.FromString(body))
        code, answer = self.server.answers.pop(0)
        content = answer if isinstance(answer, bytes) else answer.SerializeToString()
        self.send_response(code)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Runtime]:
    monkeypatch.setenv(POLL, "0.01")
    with Runtime() as runtime:
        thread = threading.Thread(target=runtime.serve_forever, args=(0.02,))
        thread.start()
        yield runtime
        runtime.over.set()
        runtime.shutdown()
        thread.join(10)


def test_it_waits_for_a_task_through_pauses_and_troubles_of_the_supernode(runtime: Runtime) -> None:
    runtime.answers = [NOTHING, (503, AcquireTaskResponse()), NOTHING, A_TASK]
    tasks = Tasks(runtime.address)
    assert tasks.next() == "secret"
    tasks.close()
    assert runtime.answers == []
    # Nothing but visits: no other kind of task that a server may think of is run at a site.
    assert {tuple(each.supported_task_types) for each in runtime.asked} == {(PROGRAM,)}


def test_a_supernode_that_is_not_there_yet_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(POLL, "0.01")
    monkeypatch.setattr(warm_visits, "PATIENCE", 0.1)
    [port] = free_ports(1)

    def listen() -> None:
        with Runtime(port) as late:
            late.answers = [A_TASK]
            late.handle_request()

    timer = threading.Timer(0.3, listen)
    timer.start()
    tasks = Tasks(f"127.0.0.1:{port}")
    assert tasks.next() == "secret"
    tasks.close()
    timer.join(10)
    [line] = capsys.readouterr().out.splitlines()
    silent = f"feddiv: the SuperNode at 127.0.0.1:{port} has not answered for 0.1 s: ConnectError: "
    assert line.startswith(silent)


@pytest.mark.parametrize("code", [401, 403, 404, 426])
def test_a_supernode_that_lets_nobody_in_is_not_asked_again(runtime: Runtime, code: int) -> None:
    runtime.answers = [(code, AcquireTaskResponse())]
    tasks = Tasks(runtime.address)
    with pytest.raises(Unsupported, match=f"HTTPStatusError: Client error '{code}"):
        tasks.next()
    tasks.close()


def test_an_answer_that_cannot_be_read_is_not_asked_for_again(runtime: Runtime) -> None:
    runtime.answers = [(200, b"no protobuf")]
    tasks = Tasks(runtime.address)
    with pytest.raises(Unsupported, match="ValueError: Invalid protobuf response payload"):
        tasks.next()
    tasks.close()


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (AcquireTaskRequest(), 'ValueError: .*AcquireTaskRequest has no "task" field'),
        (SimpleNamespace(HasField=lambda field: True), "AttributeError: .*'token'"),
    ],
)
def test_an_answer_without_a_field_is_one_of_another_flower(
    monkeypatch: pytest.MonkeyPatch, answer: object, problem: str
) -> None:
    monkeypatch.setattr(RuntimeHttpClient, "AcquireTask", lambda client, request: answer)
    tasks = Tasks("127.0.0.1:1")
    with pytest.raises(Unsupported, match=problem):
        tasks.next()
    tasks.close()


def test_a_module_that_is_not_there_is_no_hindrance(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runtime.answers = [(404, AcquireTaskResponse())]
    monkeypatch.setattr(warm_visits, "MODULES", ("torch._no_such_module",))
    monkeypatch.setattr(sys, "argv", ["", runtime.address, str(os.getpid())])
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(SystemExit) as ended:
        warm_visits.main()
    signal.signal(signal.SIGINT, handler)
    gc.unfreeze()
    assert ended.value.code == UNSUPPORTED
    assert "HTTPStatusError: Client error '404" in capsys.readouterr().out


@pytest.mark.parametrize("said", ["0", "-1", "nan", "inf", "61", "often", ""])
def test_a_pause_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    monkeypatch.setenv(POLL, said)
    with pytest.raises(UserError) as refused:
        pause()
    assert str(refused.value) == f"{POLL}={said}: has to be a number of seconds from 0.01 to 60"


def test_the_program_of_a_visit_is_flowers_own(monkeypatch: pytest.MonkeyPatch) -> None:
    assert program() is flwr_clientapp
    monkeypatch.setattr(warm_visits, "PROGRAM", "flwr-no-such-app")
    with pytest.raises(Unsupported, match="it has no flwr-no-such-app"):
        program()


def until(condition: Callable[[], object]) -> bool:
    patience = time.monotonic() + 60
    while not (met := condition()) and time.monotonic() < patience:
        time.sleep(0.05)
    return bool(met)


@pytest.fixture
def app(runtime: Runtime) -> Iterator[subprocess.Popen[str]]:
    """The app's process, and a task for it."""
    runtime.answers = [A_TASK, *[NOTHING] * 10_000]
    command = [sys.executable, "-P", "-c", f"from {APP} import main; main()"]
    quiet = {"FLWR_TELEMETRY_ENABLED": "0", "PYTHONPATH": str(Path(feddiv.__file__).parents[1])}
    with subprocess.Popen(
        [*command, runtime.address, str(os.getpid())],
        env=os.environ | quiet,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        process.kill()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="forks, and looks into /proc")
@pytest.mark.parametrize(
    ("number", "name"),
    [(signal.SIGTERM, "SIGTERM"), (signal.SIGINT, "SIGINT"), (40, "signal 40")],
)
def test_a_visit_that_is_told_to_end_says_nothing_and_is_missed(
    runtime: Runtime, app: subprocess.Popen[str], number: int, name: str
) -> None:
    children = Path(f"/proc/{app.pid}/task/{app.pid}/children")
    last_word = "push-task-output"  # after it Flower waits for the reply for ever
    assert until(lambda: "pull-task-input" in runtime.visited)
    os.kill(int(children.read_text()), number)
    assert until(lambda: last_word in runtime.visited or not children.read_text())
    assert last_word not in runtime.visited
    assert app.stdout is not None
    assert app.stdout.readline() == (
        f"feddiv: a visit was ended by {name}; the server hears of it in a minute, when "
        "Flower misses it\n"
    )


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_what_an_app_draws_from_numpy_differs_between_visits(
    runtime: Runtime, tmp_path: Path
) -> None:
    runtime.answers = [A_TASK, A_TASK, (404, AcquireTaskResponse())]
    code = f"""
import os, sys, numpy.random
import numpy as np
from {APP} import Tasks, Unsupported, token_in_a_copy
try:
    token_in_a_copy(Tasks(sys.argv[1]))
except Unsupported:
    os._exit(0)
print(np.random.random(), flush=True)
os._exit(0)
"""
    place = {"PYTHONPATH": str(Path(feddiv.__file__).parents[1])}
    command = [sys.executable, "-P", "-c", code, runtime.address]
    drawn = subprocess.check_output(command, env=os.environ | place, text=True, timeout=60).split()
    assert len(drawn) == len(set(drawn)) == 2

"""Tasks are taken from a SuperNode's Runtime API; its answers here are Flower's own messages."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

pytest.importorskip("flwr")

from flwr.proto.runtime_pb2 import AcquireTaskRequest, AcquireTaskResponse
from flwr.proto.task_pb2 import Task
from flwr.supernode.cli import flwr_clientapp

from feddiv.deploy.demo import free_ports
from feddiv.flower import warm_visits
from feddiv.flower.warm_visits import POLL, PROGRAM, Tasks, Unsupported, program

NOTHING = (200, AcquireTaskResponse())
A_TASK = (200, AcquireTaskResponse(task=Task(task_id=7), token="secret"))


class Runtime(ThreadingHTTPServer):
    """Gives its answers one after the other, and keeps what it was asked."""

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Answer)
        self.answers: list[tuple[int, AcquireTaskResponse]] = []
        self.asked: list[AcquireTaskRequest] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class Answer(BaseHTTPRequestHandler):
    server: Runtime

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.asked.append(AcquireTaskRequest.FromString(body))
        code, answer = self.server.answers.pop(0)
        content = answer.SerializeToString()
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


def test_a_supernode_that_is_not_there_yet_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(POLL, "0.01")
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


@pytest.mark.parametrize("code", [401, 403, 404, 426])
def test_a_supernode_that_lets_nobody_in_is_not_asked_again(runtime: Runtime, code: int) -> None:
    runtime.answers = [(code, AcquireTaskResponse())]
    tasks = Tasks(runtime.address)
    with pytest.raises(Unsupported, match=f"HTTPStatusError: Client error '{code}"):
        tasks.next()
    tasks.close()


def test_the_program_of_a_visit_is_flowers_own(monkeypatch: pytest.MonkeyPatch) -> None:
    assert program() is flwr_clientapp
    monkeypatch.setattr(warm_visits, "PROGRAM", "flwr-no-such-app")
    with pytest.raises(Unsupported, match="it has no flwr-no-such-app"):
        program()

"""Worker processes against the in-process federation, and what happens when they die."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from feddiv.core.errors import Diverged, WorkerLost
from feddiv.core.randomness import Streams
from feddiv.data import Dataset, Draw
from feddiv.federation.in_process import InProcess
from feddiv.federation.simulation import Simulation
from feddiv.federation.worker_pool import Workers, usable_workers
from feddiv.federation.worker_process import WorkerError
from feddiv.federation.workspace import Workspace
from feddiv.learning.average import copied
from feddiv.learning.train import TrainOptions
from feddiv.methods.contract import Budget, Client, Exchange, Message, Reply, Visit
from feddiv.methods.fedavg import FedAvg, FedAvgOptions
from feddiv.nets import ModelOptions

pytestmark = pytest.mark.slow

RNG = Streams(1).at(round=1)


class Troubled(FedAvg):
    """FedAvg whose clients meet trouble when told to."""

    def __init__(self, folder: Path) -> None:
        super().__init__(FedAvgOptions(), TrainOptions(epochs=1, batch=2), Budget(1, 1.0, 0))
        self.folder = folder

    def visit(self, client: Client, memory: Any, received: Message, rng: Streams) -> Visit[Any]:
        marks = list(self.folder.iterdir())
        trouble = received.kind.removeprefix("train ")
        if client.id == 1 and trouble.startswith("die") and len(marks) < int(trouble[4:]):
            (self.folder / str(os.getpid())).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if client.id == 1 and trouble == "raise":
            raise ZeroDivisionError("in the client")
        if client.id == 1 and trouble == "diverge":
            raise Diverged("not finite")
        if trouble == "wait":
            time.sleep(60)
        if client.id == 0 and trouble == "slow":
            time.sleep(0.5)
        if trouble == "swap":
            weights = {"b": received.weights["b"], "a": received.weights["a"]}
            return Visit(Reply(client.id, len(client), weights), None)
        if trouble == "double":
            visit = super().visit(client, memory, received, rng)
            net = {key: value.double() for key, value in visit.reply.weights["net"].items()}
            return replace(visit, reply=replace(visit.reply, weights={"net": net}))
        if trouble == "names":
            return Visit(Reply(client.id, len(client), payload=received.payload), None)
        return super().visit(client, memory, received, rng)


@pytest.fixture
def workspace(small_data: Dataset, small_draw: Draw, tmp_path: Path) -> Workspace:
    (tmp_path / "marks").mkdir()
    return Workspace(Troubled(tmp_path / "marks"), small_data, small_draw, ModelOptions(name="mlp"))


@pytest.fixture
def workers(workspace: Workspace) -> Iterator[Workers]:
    pool = Workers(workspace, 2)
    yield pool
    pool.close()


def weights(federation: Simulation) -> dict[str, Any]:
    return {"net": federation.make_model("net", RNG)}


def visits(federation: Simulation, kind: str = "train", clients=(2, 0, 1)) -> list[Visit[Any]]:
    message = Message(kind, weights(federation))
    return kept(federation, Exchange(tuple(clients), message))


def kept(federation: Simulation, exchange: Exchange) -> list[Visit[Any]]:
    """All outcomes at once; weights are lent to whoever merges them, so they are copied."""
    return [
        replace(visit, reply=replace(visit.reply, weights=copied(visit.reply.weights or {})))
        for visit in federation.visits(exchange, RNG)
    ]


def assert_same(ours: list[Visit[Any]], theirs: list[Visit[Any]]) -> None:
    assert [visit.reply.client for visit in ours] == [visit.reply.client for visit in theirs]
    for one, other in zip(ours, theirs, strict=True):
        assert one.reply.metrics == other.reply.metrics
        assert one.memory == other.memory
        for key, value in one.reply.weights["net"].items():
            assert torch.equal(value, other.reply.weights["net"][key])


def pids(pool: Workers) -> list[int]:
    return [hand.process.pid for hand in pool.workers]


def test_the_same_bits_as_in_process(workspace: Workspace, workers: Workers) -> None:
    oracle = InProcess(workspace)
    expected = visits(oracle)
    assert_same(visits(workers), expected)
    assert_same(visits(workers, "train slow", (0, 1, 2)), visits(oracle, "train slow", (0, 1, 2)))
    assert np.array_equal(workers.evaluate(weights(workers)), oracle.evaluate(weights(oracle)))
    ours = dict(workers.assess(Message("assess", weights(workers)), Streams(0)))
    theirs = dict(oracle.assess(Message("assess", weights(oracle)), Streams(0)))
    assert list(ours) == list(theirs)
    assert all(np.array_equal(ours[id].predicted, theirs[id].predicted) for id in ours)


def test_more_workers_than_clients(workspace: Workspace) -> None:
    pool = Workers(workspace, 5)
    assert_same(visits(pool), visits(InProcess(workspace)))
    pool.close()


def test_personal_messages_and_payloads(workspace: Workspace, workers: Workers) -> None:
    oracle = InProcess(workspace)
    special = {"net": oracle.make_model("other", RNG), "big": {"x": torch.zeros(50_000)}}
    for message in (Message("train", special), Message("train names", {}, {"a": np.arange(3.0)})):
        exchange = Exchange((0, 1, 2), Message("train", weights(oracle)), {1: message})
        ours, theirs = kept(workers, exchange), kept(oracle, exchange)
        if message.kind == "train":
            assert_same(ours, theirs)
        else:
            assert ours[1].reply.payload["a"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("kind", ["train", "train slow", "train die 2"])
def test_jobs_in_advance_and_replies_that_wait_for_their_turn(
    workspace: Workspace, workers: Workers, kind: str
) -> None:
    clients = (0, 1, 2, 2, 1, 2, 1, 2, 1, 2, 0, 1, 2, 2, 1, 2, 1, 1)
    assert_same(visits(workers, kind, clients), visits(InProcess(workspace), "train", clients))
    assert all(not hand.boxes and not hand.jobs for hand in workers.workers)


def test_weights_are_lent_until_the_next_reply_is_taken(workers: Workers) -> None:
    exchange = Exchange((2, 0, 1) * 6, Message("train", weights(workers)))
    for visit in workers.visits(exchange, RNG):
        before = copied(visit.reply.weights)["net"]
        time.sleep(0.02)  # meanwhile the workers write their next replies
        assert all(torch.equal(before[key], v) for key, v in visit.reply.weights["net"].items())


@pytest.mark.parametrize("deaths", [1, 2])
def test_a_worker_that_dies_is_replaced_and_its_visit_repeated(
    workspace: Workspace, workers: Workers, deaths: int
) -> None:
    assert_same(visits(workers, f"train die {deaths}"), visits(InProcess(workspace)))
    assert len(list(workspace.method.folder.iterdir())) == deaths
    assert len(workers.workers) == 2


def test_a_visit_that_kills_three_workers_ends_the_run(
    workspace: Workspace, workers: Workers
) -> None:
    with pytest.raises(WorkerLost, match=r"visit of client 1 killed its worker 3 times.*signal 9"):
        visits(workers, "train die 99")
    assert len(list(workspace.method.folder.iterdir())) == 3
    assert_same(visits(workers), visits(InProcess(workspace)))  # the pool is whole again


def test_a_worker_killed_between_two_exchanges(workspace: Workspace, workers: Workers) -> None:
    visits(workers)
    for pid in pids(workers):
        os.kill(pid, signal.SIGKILL)
    time.sleep(0.1)
    assert_same(visits(workers), visits(InProcess(workspace)))


def test_errors_of_a_client_reach_the_parent(workers: Workers) -> None:
    with pytest.raises(
        WorkerError, match=r"(?s)visit of client 1: ZeroDivisionError.*in the client"
    ):
        visits(workers, "train raise")
    with pytest.raises(Diverged, match="not finite"):
        visits(workers, "train diverge")
    assert len(visits(workers)) == 3


def test_an_exchange_that_is_given_up_leaves_no_work_behind(workers: Workers) -> None:
    exchange = Exchange((0, 1, 2), Message("train slow", weights(workers)))
    outcomes = workers.visits(exchange, RNG)
    next(outcomes)
    outcomes.close()
    assert [visit.reply.client for visit in visits(workers)] == [2, 0, 1]


def test_a_reply_of_another_size_reaches_those_who_refuse_it(
    workspace: Workspace, workers: Workers
) -> None:
    oracle = InProcess(workspace)
    ours, theirs = visits(workers, "train double"), visits(oracle, "train double")
    for one, other in zip(ours, theirs, strict=True):
        sent, expected = one.reply.weights["net"], other.reply.weights["net"]
        assert {value.dtype for value in sent.values()} == {torch.float64}
        assert all(torch.equal(value, expected[key]) for key, value in sent.items())


def test_a_reply_made_of_a_personal_message(workspace: Workspace, workers: Workers) -> None:
    nets = {name: {"w": torch.full((4096,), value)} for name, value in (("a", 1.0), ("b", 2.0))}
    exchange = Exchange((0,), Message("train swap"), {0: Message("train swap", nets)})
    (visit,) = workers.visits(exchange, RNG)
    assert visit.reply.weights["b"]["w"][0] == 2
    assert visit.reply.weights["a"]["w"][0] == 1


def test_a_heavy_personal_payload_is_not_sent_in_advance(
    workspace: Workspace, workers: Workers
) -> None:
    # More than a pipe takes: sent to a worker that is busy answering, it would stop both.
    heavy = Message("train names", {}, {"a": np.zeros(100_000)})
    exchange = Exchange((0, 1, 2) * 6, Message("train"), dict.fromkeys((0, 1, 2), heavy))
    watched: list[int] = []
    for visit in workers.visits(exchange, RNG):
        assert len(visit.reply.payload["a"]) == 100_000
        watched += [len(hand.jobs) for hand in workers.workers]
    assert max(watched) == 1


def test_an_examination_sends_no_memory_back(workspace: Workspace, workers: Workers) -> None:
    for federation in (workers, InProcess(workspace)):
        before = federation.records.write(None, "x")
        for client in (0, 1, 2):
            federation.accept(client, before)
        federation.commit()
        message = Message("examine", weights(federation))
        for visit in federation.visits(Exchange((0, 1, 2), message), RNG):
            assert visit.memory == b""
        assert all(federation.memories.get(client) == before for client in (0, 1, 2))


def test_workers_where_there_is_no_safe_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    assert usable_workers(3) == 3
    assert usable_workers(None) >= 1
    monkeypatch.setattr("sys.platform", "darwin")
    assert usable_workers(None) == usable_workers(3) == 0


def test_a_pool_that_nobody_closed_does_not_hold_python_up() -> None:
    code = (
        "import feddiv.federation.worker_pool as w; from feddiv.runs.prepare import prepare;"
        "from feddiv.config.reading import load_experiment;"
        "p = prepare(load_experiment('quickstart', {'data.images': 50, 'clients.count': 2}));"
        "pool = w.Workers(p.workspace, 2); from feddiv.core.randomness import Streams;"
        "pool.evaluate({'net': pool.make_model('net', Streams(0))}); print(len(pool.workers))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr


def test_no_process_is_left_after_close(workspace: Workspace) -> None:
    pool = Workers(workspace, 3)
    visits(pool)
    there = pids(pool)
    pool.close()
    assert len(there) == 3
    for pid in there:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)

"""The fast federation on one machine: worker processes, forked from this one.

A Letter is a message whose weights lie in shared memory.
Every worker sees the data and the method as they were when it was forked, without a copy. Weights
go both ways through shared memory: one board that all workers read, two mailboxes per worker, so
that it can go on while its last reply is being merged. What is small goes through a pipe, as
records of bytes. Replies are handed on in the plan's order whoever finished first, so the result
has the same bits for any number of workers.
"""

import atexit
import gc
import multiprocessing
import os
import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from feddiv.core.arrays import Weights
from feddiv.core.errors import WorkerLost
from feddiv.core.interrupts import allowed
from feddiv.core.randomness import Streams
from feddiv.core.trees import pack, unpack
from feddiv.data.scaling import Scaling
from feddiv.federation.shared_memory import SharedArea, room_for
from feddiv.federation.simulation import Simulation
from feddiv.federation.worker_process import (
    Answer,
    Letter,
    Worker,
    WorkerTask,
    joined,
    raise_error,
    split,
    work,
)
from feddiv.federation.workspace import Workspace
from feddiv.learning.average import copied
from feddiv.methods.contract import Assessment, Exchange, Message, Visit

ATTEMPTS = 3  # a task that kills so many workers ends the run
AHEAD = 4  # tasks per worker that may be finished before the one whose turn it is
MAILBOXES = 2  # per worker
LIGHT = 1 << 14  # bytes that a pipe takes although nobody reads them yet


def usable_workers(wanted: int | None) -> int:
    """As many as wanted, by default one per core that this process may use.

    None (0) where processes can't be forked safely once torch is loaded: elsewhere than on Linux.
    """
    if sys.platform != "linux":
        return 0
    return len(os.sched_getaffinity(0)) if wanted is None else wanted


@dataclass
class Job:
    """A task, what belongs to it, and how many workers it has killed."""

    task: WorkerTask
    personal: Message | None = None
    deaths: int = 0
    cause: str = ""

    @property
    def where(self) -> str:
        """For messages about it."""
        if self.task.kind == "evaluate":
            return f"evaluation of chunks {self.task.chunks}"
        return f"{self.task.kind} of client {self.task.rng.client}"


@dataclass(eq=False)
class WorkerHandle:
    """The parent's grip on one worker.

    A mailbox belongs to a job from when it is handed out until its reply has been merged, or
    copied to make room.
    """

    process: BaseProcess
    connection: Connection
    mailboxes: tuple[SharedArea, ...]
    letter: int = 0  # serial of the last letter that was sent to it
    jobs: deque[int] = field(default_factory=deque)  # what it works on, and what comes next
    boxes: dict[int, int] = field(default_factory=dict)  # job -> its mailbox

    @property
    def free(self) -> int | None:
        """A mailbox that belongs to no job."""
        taken = self.boxes.values()
        return next((box for box in range(len(self.mailboxes)) if box not in taken), None)


@dataclass
class Outcome:
    """An answer on its way to whoever asked; weights may still lie in the worker's mailbox."""

    answer: Answer
    weights: Weights | None
    memory: bytes
    lender: WorkerHandle | None = None


class Workers(Simulation):
    """A pool of worker processes that act as any client."""

    def __init__(self, workspace: Workspace, count: int, folder: Path | None = None) -> None:
        super().__init__(workspace, folder)
        self.count = count
        self.workers: list[WorkerHandle] = []
        self.board = SharedArea(0)
        self.letter = Letter(0, "", {}, ())
        self.packed_letter = b""
        self.room = 0  # bytes of a mailbox

    # What the loop asks for

    def visits(self, exchange: Exchange, rng: Streams) -> Iterator[Visit[Any]]:
        """Visit the clients of the exchange; outcomes come in its order."""
        self._post(exchange.message, list(exchange.personal.values()))
        jobs = [
            Job(
                WorkerTask("visit", self.letter.serial, rng.at(client=id)),
                exchange.personal.get(id),
            )
            for id in exchange.clients
        ]
        for outcome in self._results(jobs):
            without_weights = outcome.answer.reply
            assert without_weights is not None
            reply = replace(without_weights, weights=outcome.weights)
            yield Visit(reply, outcome.memory, outcome.answer.diary)

    def standardise(self, scaling: Scaling) -> None:
        """Workers see data as they were when they were forked: others are, at the next exchange."""
        super().standardise(scaling)
        self.close()

    def evaluate(self, weights: Weights) -> npt.NDArray[np.float32]:
        """Test logits; each worker takes a stretch of the chunks."""
        self._post(Message("evaluate", weights))
        chunks = self.workspace.test_chunks
        bounds = [chunks * part // self.count for part in range(self.count + 1)]
        here = Streams(0)  # evaluation draws nothing
        jobs = [
            Job(WorkerTask("evaluate", self.letter.serial, here, (first, last)))
            for first, last in pairwise(bounds)
            if last > first
        ]
        return np.concatenate([outcome.answer.logits for outcome in self._results(jobs)])

    def assess(self, message: Message, rng: Streams) -> Iterator[tuple[int, Assessment]]:
        """Ask every client."""
        self._post(message)
        jobs = [
            Job(WorkerTask("assess", self.letter.serial, Streams(0, client=id)))
            for id in self.facts.sizes
        ]
        for job, outcome in zip(jobs, self._results(jobs), strict=True):
            assert outcome.answer.assessment is not None
            yield job.task.rng.client, outcome.answer.assessment

    def close(self) -> None:
        """End all workers."""
        atexit.unregister(self.close)
        for worker in self.workers:
            worker.process.kill()
        for worker in self.workers:
            _end(worker)
        self.workers = []

    # Letters

    def _post(self, message: Message, personal: Sequence[Message] = ()) -> None:
        """Put a message on the board, after making the areas as large as it and replies need."""
        size = room_for(message.weights)
        mailbox = max([size, *(room_for(other.weights) for other in personal)])
        if size > self.board.size or mailbox > self.room or not self.workers:
            self.close()  # workers know only the areas that they were forked with
            atexit.register(self.close)  # before multiprocessing's own, which asks and waits
            self.board = SharedArea(max(size, self.board.size))
            self.room = max(mailbox, self.room)
            gc.collect()
            gc.freeze()  # so that no worker's collector touches, and thereby copies, our pages
            for _ in range(self.count):
                self.workers.append(self._start_worker())
            gc.unfreeze()
        layout = self.board.write(message.weights)
        self.letter = Letter(self.letter.serial + 1, message.kind, message.payload, layout)
        self.packed_letter = pack(self.letter)

    # Processes

    def _start_worker(self) -> WorkerHandle:
        """A new worker process."""
        context = multiprocessing.get_context("fork")
        ours, theirs = context.Pipe()
        mailboxes = tuple(SharedArea(self.room) for _ in range(MAILBOXES))
        worker = Worker(self.workspace, self.records, self.board, mailboxes)
        others = [*(worker.connection for worker in self.workers), ours]
        process = context.Process(target=_live, args=(worker, theirs, others), daemon=True)
        process.start()
        theirs.close()
        return WorkerHandle(process, ours, mailboxes)

    # Jobs

    def _results(self, jobs: Sequence[Job]) -> Iterator[Outcome]:
        """Answers in the order of the jobs; workers that die are replaced, their jobs repeated."""
        todo, done = deque(range(len(jobs))), dict[int, Outcome]()
        turn = 0
        try:
            while turn < len(jobs):
                self._give_work(jobs, todo, done, turn)
                if turn in done:
                    outcome = done.pop(turn)
                    raise_error(outcome.answer, jobs[turn].where)
                    yield outcome
                    if outcome.lender is not None:
                        del outcome.lender.boxes[turn]
                    turn += 1
                    continue
                busy = [worker.connection for worker in self.workers if worker.jobs]
                if not busy:  # all were found dead, and replaced
                    continue
                with allowed():  # nothing here is half done: replies that are in are in `done`
                    ready = wait(busy)
                for place, worker in enumerate(self.workers):
                    if worker.connection in ready and worker.jobs:
                        try:
                            done[worker.jobs[0]] = _received(worker)
                            worker.jobs.popleft()
                        except (EOFError, OSError):
                            self._replace_dead(place, jobs, todo)
        finally:
            if any(worker.jobs for worker in self.workers):
                self.close()  # given up: what they are doing is of no use any more
            for worker in self.workers:
                worker.boxes.clear()

    def _give_work(
        self, jobs: Sequence[Job], todo: "deque[int]", done: dict[int, Outcome], turn: int
    ) -> None:
        """Give work to whoever has none and, while there is much of it, one job in advance."""
        for place, worker in enumerate(self.workers):
            if not todo or todo[0] >= turn + AHEAD * self.count:
                return
            if worker.jobs and not self._in_advance(worker, len(todo)):
                continue
            if worker.free is None:
                if worker.jobs:
                    continue  # soon one of its replies will be merged
                _make_room(worker, done)
            message = self._packed(worker, jobs[todo[0]])
            if worker.jobs and len(message) > LIGHT:
                continue  # a full pipe would make us wait for one that may be waiting for us
            if not self._give(worker, message, todo.popleft()):
                self._replace_dead(place, jobs, todo)

    def _in_advance(self, worker: WorkerHandle, left: int) -> bool:
        """Whether a worker that has a job may be given one more, if it is light.

        Near the end it might wait behind a slow one while others idle.
        """
        return len(worker.jobs) < MAILBOXES and left > MAILBOXES * self.count

    def _packed(self, worker: WorkerHandle, job: Job) -> bytes:
        """The whole message that gives this worker the job; personal weights go to its mailbox."""
        box = worker.free
        assert box is not None
        task = replace(job.task, mailbox=box)
        if job.personal is not None:
            layout = worker.mailboxes[box].write(job.personal.weights)
            letter = Letter(0, job.personal.kind, job.personal.payload, layout)
            task = replace(task, personal=letter)
        packed = b"" if worker.letter == self.letter.serial else self.packed_letter
        return joined(packed, pack(task), self.memories.get(task.rng.client) or b"")

    def _give(self, worker: WorkerHandle, message: bytes, number: int) -> bool:
        """Give a worker a job; False where there is nobody to take it."""
        assert worker.free is not None
        worker.boxes[number] = worker.free
        worker.jobs.append(number)
        try:
            worker.connection.send_bytes(message)
        except OSError:
            return False
        worker.letter = self.letter.serial
        return True

    def _replace_dead(self, place: int, jobs: Sequence[Job], todo: "deque[int]") -> None:
        """Replace a worker that died, and put its jobs back in front."""
        worker = self.workers[place]
        _end(worker)
        job = jobs[worker.jobs[0]]
        job.deaths += 1
        job.cause = _cause_of_death(worker.process.exitcode)
        todo.extendleft(reversed(worker.jobs))
        self.workers[place] = self._start_worker()
        if job.deaths == ATTEMPTS:
            raise WorkerLost(f"{job.where} killed its worker {ATTEMPTS} times ({job.cause})")


def _live(worker: Worker, connection: Connection, others: Sequence[Connection]) -> None:
    for other in others:
        other.close()  # or a dead sibling's pipe would stay open here
    work(worker, connection)


def _received(worker: WorkerHandle) -> Outcome:
    packed, memory = split(worker.connection.recv_bytes())
    answer: Answer = unpack(Answer, packed)
    number = worker.jobs[0]
    if answer.layout is None:
        del worker.boxes[number]
        return Outcome(answer, answer.weights, memory)
    weights = worker.mailboxes[worker.boxes[number]].read(answer.layout)
    return Outcome(answer, weights, memory, worker)


def _make_room(worker: WorkerHandle, done: Mapping[int, Outcome]) -> None:
    """Empty a mailbox: its reply will have to wait for its turn elsewhere."""
    number = next(iter(worker.boxes))
    outcome = done[number]
    assert outcome.weights is not None
    outcome.weights, outcome.lender = copied(outcome.weights), None
    del worker.boxes[number]


def _end(worker: WorkerHandle) -> None:
    with suppress(OSError):
        worker.connection.close()
    if worker.process.is_alive():
        worker.process.kill()
    worker.process.join()


def _cause_of_death(code: int | None) -> str:
    if code is not None and code < 0:
        hint = ": perhaps out of memory" if code == -9 else ""
        return f"signal {-code}{hint}"
    return f"exit code {code}"

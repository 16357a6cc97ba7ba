"""The fast federation on one machine: worker processes, forked from this one.

Every worker sees the data and the method as they were when it was forked, without a copy. Weights
go both ways through shared memory: one board that all workers read, one mailbox per worker. What
is small goes through a pipe, as records of bytes. Replies are handed on in the plan's order
whoever finished first, so the result has the same bits for any number of workers.
"""

import atexit
import gc
import multiprocessing
import os
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from feddiv.errors import WorkerLost
from feddiv.federation.shared import SharedArea, copied, room_for
from feddiv.federation.simulation import Simulation
from feddiv.federation.worker import Answer, Letter, Task, Worker, joined, raise_error, split, work
from feddiv.federation.workspace import Workspace
from feddiv.interrupts import allowed
from feddiv.learning.average import Weights
from feddiv.methods.contract import Assessment, Exchange, Message, Reply, Visit
from feddiv.randomness import Streams
from feddiv.trees import pack, unpack

ATTEMPTS = 3  # a task that kills so many workers ends the run
AHEAD = 4  # tasks per worker that may be finished before the one whose turn it is


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

    task: Task
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
class Hand:
    """The parent's grip on one worker."""

    process: BaseProcess
    connection: Connection
    mailbox: SharedArea
    letter: int = 0  # serial of the letter it has
    job: int | None = None  # what it works on


class Workers(Simulation):
    """A pool of worker processes that act as any client."""

    def __init__(self, workspace: Workspace, count: int, folder: Path | None = None) -> None:
        super().__init__(workspace, folder)
        self.count = count
        self.hands: list[Hand] = []
        self.board = SharedArea(0)
        self.letter = Letter(0, "", {}, ())
        self.packed_letter = b""
        self.room = 0  # bytes of a mailbox

    # What the loop asks for

    def exchange(self, exchange: Exchange, rng: Streams) -> Iterator[Visit[Any]]:
        """Visit the clients of the exchange; outcomes come in its order."""
        self._post(exchange.message, list(exchange.personal.values()))
        jobs = [
            Job(
                Task("visit", self.letter.serial, rng.at(client=id)),
                exchange.personal.get(id),
            )
            for id in exchange.clients
        ]
        for answer, weights, memory in self._results(jobs):
            assert answer.reply is not None
            light = answer.reply
            reply = Reply(light.client, light.samples, weights, light.payload, light.metrics)
            yield Visit(reply, memory, answer.diary)

    def evaluate(self, weights: Weights) -> npt.NDArray[np.float32]:
        """Test logits; each worker takes a stretch of the chunks."""
        self._post(Message("evaluate", weights))
        chunks = self.workspace.test_chunks
        bounds = [chunks * part // self.count for part in range(self.count + 1)]
        here = Streams(0)  # evaluation draws nothing
        jobs = [
            Job(Task("evaluate", self.letter.serial, here, (first, last)))
            for first, last in pairwise(bounds)
            if last > first
        ]
        return np.concatenate([answer.logits for answer, _, _ in self._results(jobs)])

    def assess(self, message: Message) -> Iterator[tuple[int, Assessment]]:
        """Ask every client."""
        self._post(message)
        jobs = [
            Job(Task("assess", self.letter.serial, Streams(0, client=id)))
            for id in self.facts.sizes
        ]
        for job, (answer, _, _) in zip(jobs, self._results(jobs), strict=True):
            assert answer.assessment is not None
            yield job.task.rng.client, answer.assessment

    def close(self) -> None:
        """End all workers."""
        atexit.unregister(self.close)
        for hand in self.hands:
            hand.process.kill()
        for hand in self.hands:
            _end(hand)
        self.hands = []

    # Letters

    def _post(self, message: Message, personal: Sequence[Message] = ()) -> None:
        """Put a message on the board, after making the areas as large as it and replies need."""
        size = room_for(message.weights)
        mailbox = max([size, *(room_for(other.weights) for other in personal)])
        if size > self.board.size or mailbox > self.room or not self.hands:
            self.close()  # workers know only the areas that they were forked with
            atexit.register(self.close)  # before multiprocessing's own, which asks and waits
            self.board = SharedArea(max(size, self.board.size))
            self.room = max(mailbox, self.room)
            gc.collect()
            gc.freeze()  # so that no worker's collector touches, and thereby copies, our pages
            for _ in range(self.count):
                self.hands.append(self._hired())
            gc.unfreeze()
        layout = self.board.write(message.weights)
        self.letter = Letter(self.letter.serial + 1, message.kind, message.payload, layout)
        self.packed_letter = pack(self.letter)

    # Processes

    def _hired(self) -> Hand:
        """A new worker process."""
        context = multiprocessing.get_context("fork")
        ours, theirs = context.Pipe()
        mailbox = SharedArea(self.room)
        worker = Worker(self.workspace, self.records, self.board, mailbox)
        others = [*(hand.connection for hand in self.hands), ours]
        process = context.Process(target=_live, args=(worker, theirs, others), daemon=True)
        process.start()
        theirs.close()
        return Hand(process, ours, mailbox)

    # Jobs

    def _results(self, jobs: Sequence[Job]) -> Iterator[tuple[Answer, Weights | None, bytes]]:
        """Answers in the order of the jobs; workers that die are replaced, their jobs repeated."""
        todo, done = deque(range(len(jobs))), dict[int, tuple[Answer, Weights | None, bytes]]()
        turn = 0
        try:
            while turn < len(jobs):
                for place, hand in enumerate(self.hands):
                    if todo and hand.job is None and todo[0] < turn + AHEAD * self.count:
                        number = todo.popleft()
                        if not self._handed(hand, jobs[number], number):
                            self._bury(place, jobs, todo)
                if turn in done:
                    answer, weights, memory = done.pop(turn)
                    raise_error(answer, jobs[turn].where)
                    yield answer, weights, memory
                    turn += 1
                    continue
                busy = [hand.connection for hand in self.hands if hand.job is not None]
                if not busy:  # all were found dead, and replaced
                    continue
                with allowed():  # nothing here is half done: replies that are in are in `done`
                    ready = wait(busy)
                for place, hand in enumerate(self.hands):
                    if hand.connection in ready and hand.job is not None:
                        try:
                            done[hand.job] = _received(hand)
                            hand.job = None
                        except (EOFError, OSError):
                            self._bury(place, jobs, todo)
        finally:
            if any(hand.job is not None for hand in self.hands):
                self.close()  # given up: what they are doing is of no use any more

    def _handed(self, hand: Hand, job: Job, number: int) -> bool:
        """Give a worker a job; False where there is nobody to take it."""
        hand.job = number
        task = job.task
        if job.personal is not None:
            layout = hand.mailbox.write(job.personal.weights)
            personal = Letter(0, job.personal.kind, job.personal.payload, layout)
            task = Task(task.kind, task.letter, task.rng, task.chunks, personal)
        letter = b"" if hand.letter == self.letter.serial else self.packed_letter
        record = self.memories.get(task.rng.client) or b""
        try:
            hand.connection.send_bytes(joined(letter, pack(task), record))
        except OSError:
            return False
        hand.letter = self.letter.serial
        return True

    def _bury(self, place: int, jobs: Sequence[Job], todo: "deque[int]") -> None:
        """Replace a worker that died, and put its job back in front."""
        hand = self.hands[place]
        _end(hand)
        assert hand.job is not None
        job = jobs[hand.job]
        job.deaths += 1
        job.cause = _cause_of_death(hand.process.exitcode)
        todo.appendleft(hand.job)
        self.hands[place] = self._hired()
        if job.deaths == ATTEMPTS:
            raise WorkerLost(f"{job.where} killed its worker {ATTEMPTS} times ({job.cause})")


def _live(worker: Worker, connection: Connection, others: Sequence[Connection]) -> None:
    for other in others:
        other.close()  # or a dead sibling's pipe would stay open here
    work(worker, connection)


def _received(hand: Hand) -> tuple[Answer, Weights | None, bytes]:
    packed, memory = split(hand.connection.recv_bytes())
    answer: Answer = unpack(Answer, packed)
    if answer.layout is None:
        return answer, answer.weights, memory
    return answer, copied(hand.mailbox.read(answer.layout)), memory


def _end(hand: Hand) -> None:
    with suppress(OSError):
        hand.connection.close()
    if hand.process.is_alive():
        hand.process.kill()
    hand.process.join()


def _cause_of_death(code: int | None) -> str:
    if code is not None and code < 0:
        hint = ": perhaps out of memory" if code == -9 else ""
        return f"signal {-code}{hint}"
    return f"exit code {code}"

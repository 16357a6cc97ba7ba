"""A worker process: it makes visits, evaluates and assesses as it is asked, one task at a time."""

import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import numpy.typing as npt

from feddiv.core.arrays import Weights
from feddiv.core.errors import Diverged, UserError
from feddiv.core.interrupts import left_to_parent
from feddiv.core.randomness import Streams
from feddiv.core.trees import pack, unpack
from feddiv.federation.client_memory import MemoryRecords
from feddiv.federation.shared_memory import Layout, SharedArea, room_for
from feddiv.federation.visit import make_assessment, make_visit
from feddiv.federation.workspace import Workspace
from feddiv.learning.average import copied
from feddiv.methods.contract import Assessment, Message, Reply

# Errors that mean something to a user keep their class on the way to the parent.
USER_ERRORS = {kind.__name__: kind for kind in (Diverged, UserError)}


class WorkerError(RuntimeError):
    """A worker's task failed for a reason that is a bug; holds the worker's traceback."""


@dataclass(frozen=True)
class Letter:
    """A message as it is sent: its weights lie in shared memory."""

    serial: int
    kind: str
    payload: dict[str, Any]
    layout: Layout

    def opened(self, area: SharedArea) -> Message:
        """The message; its weights are views."""
        return Message(self.kind, area.read(self.layout), self.payload)


@dataclass(frozen=True)
class WorkerTask:
    """What to do with a letter: `visit` or `assess` a client, or `evaluate` some chunks."""

    kind: str
    letter: int  # its serial
    rng: Streams
    chunks: tuple[int, int] = (0, 0)
    mailbox: int = 0  # which of the worker's own takes the reply
    personal: Letter | None = None  # its weights lie in that mailbox


@dataclass(frozen=True)
class Answer:
    """What came of a task; weights lie in the worker's mailbox, a memory follows as bytes."""

    reply: Reply | None = None
    layout: Layout | None = None
    weights: Weights | None = None  # where they are larger than what was sent: to be refused
    diary: dict[str, Any] = field(default_factory=dict)
    assessment: Assessment | None = None
    logits: npt.NDArray[np.float32] | None = None
    error: str | None = None  # its class
    reason: str = ""


class Worker:
    """The child's side: a workspace, and shared areas to read from and write to."""

    def __init__(
        self,
        workspace: Workspace,
        records: MemoryRecords,
        board: SharedArea,
        mailboxes: Sequence[SharedArea],
    ) -> None:
        self.workspace, self.records = workspace, records
        self.board, self.mailboxes = board, mailboxes
        self.letter: Letter | None = None

    def serve(self, connection: Connection) -> None:
        """Answer until the parent hangs up."""
        while True:
            letter, task, record = split(connection.recv_bytes())
            if letter:
                self.letter = unpack(Letter, letter)
            answer, memory = self._answered(unpack(WorkerTask, task), record or None)
            connection.send_bytes(joined(pack(answer), memory))

    def _answered(self, task: WorkerTask, record: bytes | None) -> tuple[Answer, bytes]:
        try:
            return self._done(task, record)
        except Exception as problem:
            name = type(problem).__name__
            reason = str(problem) if name in USER_ERRORS else traceback.format_exc()
            return Answer(error=name, reason=reason), b""

    def _done(self, task: WorkerTask, record: bytes | None) -> tuple[Answer, bytes]:
        mailbox = self.mailboxes[task.mailbox]
        if task.personal is not None:
            message = task.personal.opened(mailbox)
            # The reply goes to the same place, and may be made of what was received.
            message = Message(message.kind, copied(message.weights), message.payload)
        else:
            assert self.letter is not None
            assert self.letter.serial == task.letter
            message = self.letter.opened(self.board)
        if task.kind == "visit":
            return self._visited(message, record, task.rng, mailbox)
        if task.kind == "evaluate":
            return Answer(logits=self.workspace.evaluate(message.weights, *task.chunks)), b""
        id = task.rng.client
        opinion = make_assessment(self.workspace, self.records, message, record, id)
        return Answer(assessment=opinion), b""

    def _visited(
        self, message: Message, record: bytes | None, rng: Streams, mailbox: SharedArea
    ) -> tuple[Answer, bytes]:
        visit = make_visit(self.workspace, self.records, message, record, rng)
        reply, layout, odd = visit.reply, None, None
        if reply.weights is not None and room_for(reply.weights) <= mailbox.size:
            layout = mailbox.write(reply.weights)
        else:
            odd = reply.weights
        light = Reply(reply.client, reply.samples, None, reply.payload, reply.metrics)
        return Answer(light, layout, odd, visit.diary), visit.memory


def joined(*parts: bytes) -> bytes:
    """Several records as one message: every message wakes its reader, and costs both sides."""
    sizes = [len(part).to_bytes(8, "little") for part in parts]
    return b"".join(piece for pair in zip(sizes, parts, strict=True) for piece in pair)


def split(message: bytes) -> list[bytes]:
    """The records of a message."""
    parts, place = [], 0
    while place < len(message):
        end = place + 8 + int.from_bytes(message[place : place + 8], "little")
        parts.append(message[place + 8 : end])
        place = end
    return parts


def raise_error(answer: Answer, where: str) -> None:
    """The error of a worker, in the parent."""
    if answer.error is not None:
        known: Mapping[str, type[Exception]] = USER_ERRORS
        if answer.error in known:
            raise known[answer.error](answer.reason)
        raise WorkerError(f"{where}: {answer.error} in a worker\n{answer.reason}")


def work(worker: Worker, connection: Connection) -> None:
    """The life of a worker process."""
    left_to_parent()  # which ends workers by SIGKILL
    try:
        worker.serve(connection)
    except (EOFError, OSError):
        pass  # the parent hung up
    except BaseException:
        traceback.print_exc(file=sys.stderr)
    os._exit(0)  # nothing of the parent's is flushed or torn down here

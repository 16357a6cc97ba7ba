"""One visit to one client: the same in a simulation, in a worker process and at a real site."""

import json
from dataclasses import replace
from typing import Any

from feddiv.core.errors import UserError, in_one_line
from feddiv.core.randomness import Streams
from feddiv.federation.client_memory import MemoryRecords
from feddiv.federation.private_visit import Own, Protection, is_step
from feddiv.federation.workspace import Workspace
from feddiv.methods.contract import Assessment, Message, Reply, Visit
from feddiv.methods.feature_sums import KIND as SUMS
from feddiv.methods.feature_sums import told_sums
from feddiv.methods.held_out_counts import KIND, examined


def make_visit(
    workspace: Workspace,
    records: MemoryRecords,
    message: Message,
    record: bytes | None,
    rng: Streams,
    own: Own | None = None,
) -> Visit[Any]:
    """One visit to the client of `rng`; its memory comes and goes as a record.

    `own` is what a real site has for a private filter, and no server knows.
    """
    client, protection = workspace.client(rng.client), Protection(workspace, rng, own)
    if is_step(message):
        return Visit(Reply(client.id, len(client), payload=protection.step(message)), b"")
    if message.kind == SUMS:
        if not workspace.tells_sums:
            raise UserError("is asked for sums of features, and data.standardise is not clients")
        return Visit(told_sums(client), b"")
    received = protection.received(message) if protection.active else message
    noise = None
    if message.kind == KIND:
        reply, diary = examined(workspace.method, client, records.read(record), received)
    else:
        visit = workspace.method.visit(client, records.read(record), received, rng)
        _check_diary(visit.diary, workspace.method.options.name, message.kind)
        reply, diary = visit.reply, visit.diary
    if protection.active:
        reply, noise = protection.protected(reply, message, lambda: records.noise(record))
    if message.kind == KIND:
        return Visit(reply, b"", diary)  # its memory stays as it was: nothing to send back
    name = f"{rng.client:06d}-{rng.round:06d}-{rng.exchange:04d}"
    return Visit(reply, records.write(visit.memory, name, noise), diary)


def make_assessment(
    workspace: Workspace, records: MemoryRecords, message: Message, record: bytes | None, id: int
) -> Assessment:
    """A client's opinion of all its labels, also of those that it keeps out of training."""
    client, memory, method = workspace.client(id), records.read(record), workspace.method
    opinion = method.assess(client, memory, message).trusting(client.samples)
    if not len(client.held_out):
        return opinion
    held_out = method.assess_held_out(client, memory, message).trusting(client.held_out)
    return replace(opinion, held_out=held_out)


def _check_diary(diary: object, method: str, kind: str) -> None:
    """Refuse a diary that could not be recorded, before anything is made of the visit."""
    where = f"method.name={method}: the diary of a visit for {kind!r}"
    if not isinstance(diary, dict):
        raise UserError(f"{where} is a {type(diary).__name__}, not a dict; leave it out for none")
    for key, value in diary.items():
        if not isinstance(key, str):
            raise UserError(f"{where} has the key {key!r}, which is no text")
        try:
            json.dumps(value)
        except (TypeError, ValueError, RecursionError) as problem:
            raise UserError(
                f"{where} cannot be written as JSON: {key!r} is a {type(value).__name__} "
                f"({in_one_line(problem)}); give plain numbers, texts, lists and dicts of them"
            ) from None

"""One visit to one client: the same in a simulation, in a worker process and at a real site."""

from typing import Any

from feddiv.core.randomness import Streams
from feddiv.federation.client_memory import MemoryRecords
from feddiv.federation.workspace import Workspace
from feddiv.methods.contract import Message, Visit
from feddiv.methods.held_out_counts import KIND, examined


def make_visit(
    workspace: Workspace,
    records: MemoryRecords,
    message: Message,
    record: bytes | None,
    rng: Streams,
) -> Visit[Any]:
    """One visit to the client of `rng`; its memory comes and goes as a record."""
    client = workspace.client(rng.client)
    if message.kind == KIND:
        reply, diary = examined(workspace.method, client, records.read(record), message)
        return Visit(reply, b"", diary)  # its memory stays as it was: nothing to send back
    visit = workspace.method.visit(client, records.read(record), message, rng)
    name = f"{rng.client:06d}-{rng.round:06d}-{rng.exchange:04d}"
    return Visit(visit.reply, records.write(visit.memory, name), visit.diary)

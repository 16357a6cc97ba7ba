"""Clients' counts of held-out samples on their way to the evaluation."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from feddiv.federation.carriage import Carriage, Note
from feddiv.federation.federation import Absence, Federation
from feddiv.federation.reply_check import Refused, check_possible, check_reply
from feddiv.federation.secure_sum import SecureSum
from feddiv.federation.traffic import message_bytes, reply_bytes
from feddiv.methods.contract import Diary, Kind, Reply
from feddiv.methods.held_out_counts import KIND, counts_kind


@dataclass
class Answers:
    """Counts of held-out samples as they come, checked; `most` is how many each can have."""

    federation: Federation
    carriage: Carriage
    most: dict[int, int]
    note: Note
    diaries: dict[int, Diary] = field(default_factory=dict)
    missing: list[int] = field(default_factory=list)
    bytes_up: int = 0
    bytes_down: int = 0

    def __iter__(self) -> Iterator[Reply]:
        sizes = self.federation.facts.sizes
        for visit in self.carriage.visits():
            if isinstance(visit, Absence):
                self.missing.append(visit.client)
                self.note({"client": visit.client, "kind": KIND, "missing": visit.reason})
                continue
            reply, sent = visit.reply, self.carriage.exchange.message
            self.bytes_up += reply_bytes(reply)
            self.bytes_down += message_bytes(sent, self.federation.scaling)
            try:
                kind = self._kind(reply.client)
                check_reply(reply, kind, sent, sizes[reply.client])
                check_possible(reply, kind)
            except Refused as reason:
                self.refused(reply.client, str(reason))
                continue
            self.diaries[reply.client] = visit.diary
            yield reply

    def _kind(self, client: int) -> Kind:
        """What this client may say: counts of its own samples, or masked ones."""
        kind = self.carriage.kind
        if isinstance(self.carriage, SecureSum):
            return kind
        return counts_kind(self.federation.facts, self.most[client])

    def refused(self, client: int, reason: str) -> None:
        """Leave an answer out, and say so."""
        self.missing.append(client)
        why = self.federation.refuse(client, reason)
        self.note({"client": client, "kind": KIND, "refused": why})


def without_opinion(reply: Reply) -> Reply:
    """Sums of clients that had no opinion are zeros, as absent entries are in a sum."""
    believed = reply.payload.get("believed")
    if believed is None or believed.any():
        return reply
    payload = {k: v for k, v in reply.payload.items() if not k.startswith("believed")}
    return replace(reply, payload=payload)

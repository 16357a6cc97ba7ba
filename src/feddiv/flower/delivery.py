"""Messages to nodes over Flower's Grid, and their answers, of which none can harm the others."""

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

import httpx
from flwr.app import Message as FlowerMessage
from flwr.app import MessageType, RecordDict

from feddiv.core.interrupts import allowed
from feddiv.federation.reply_check import Refused
from feddiv.flower.seats import Transient, unreadable

LINGER = 60.0  # seconds that Flower keeps a message beyond twice the time-out
SOONEST, LATEST = 0.01, 0.5  # seconds between two looks for a reply
LINK_TROUBLE = (httpx.HTTPError,)  # of the way to the SuperLink, which no site is to blame for


class Network(Protocol):
    """What is used of Flower's Grid."""

    def get_nodes(self) -> Iterable[Any]:
        """The nodes that are connected now."""

    def push_messages(self, messages: Iterable[FlowerMessage]) -> Iterable[str]:
        """Send; the messages' ids."""

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[FlowerMessage]:
        """Answers to these messages that have come."""


def delivered(
    grid: Network, records: Mapping[int, RecordDict], seconds: float
) -> Iterator[tuple[int, FlowerMessage | Refused]]:
    """Send to nodes; their answers, or why there is none, in the same order.

    An answer that comes early is kept, so a site may leave once it has answered. A message is
    kept longer than the time-out, because Flower drops a reply when its message expires.
    """
    messages = [
        FlowerMessage(content, node, MessageType.TRAIN, ttl=2 * seconds + LINGER)
        for node, content in records.items()
    ]
    ids = list(grid.push_messages(messages)) if messages else []
    deadline, pause = time.monotonic() + seconds, SOONEST
    arrived: dict[str, FlowerMessage | Refused] = {}
    outstanding = {id for id in ids if id}
    for node, id in zip(records, ids, strict=True):
        while id in outstanding:
            late = time.monotonic() >= deadline
            for each in [id] if late else sorted(outstanding):
                if (answer := _pulled(grid, each)) is not None:
                    outstanding.remove(each)
                    arrived[each] = answer
            if late or id not in outstanding:
                break
            with allowed():
                time.sleep(pause)
            pause = min(2 * pause, LATEST)
        nothing = f"did not answer in {seconds:g} seconds" if id else "could not be reached"
        yield node, arrived.pop(id, Transient(nothing))


def _pulled(grid: Network, id: str) -> FlowerMessage | Refused | None:
    """The answer to one message, if it has come.

    One at a time: Flower forgets all answers of a pull, also those that were not read yet when
    reading another failed. And which message an answer says it belongs to is the site's word.
    """
    try:
        with allowed():
            found = list(grid.pull_messages([id]))
        if found and found[0].metadata.reply_to_message_id != id:
            return Refused("answers another message than its own")
    except LINK_TROUBLE:
        raise
    except Exception as problem:
        return unreadable(problem)
    return found[0] if found else None

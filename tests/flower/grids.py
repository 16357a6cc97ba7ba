"""A Grid in this process: every message is written as on the wire, read, and given to an app."""

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity


def as_sent(message: Message) -> Message:
    """The message after a trip over the wire."""
    return message_from_proto(
        type(message_to_proto(message)).FromString(message_to_proto(message).SerializeToString())
    )


class LocalGrid(Grid):
    """Nodes by number with their node configs; `meddle(node, message, reply)` changes replies."""

    def __init__(
        self,
        app: ClientApp,
        nodes: Mapping[int, Mapping[str, Any]],
        run_config: Mapping[str, Any] | None = None,
        *,
        keys: Mapping[int, bytes] | None = None,
        names: Mapping[int, str] | None = None,
    ) -> None:
        TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1
        self.app, self.run_config = app, dict(run_config or {})
        self.nodes = {node: dict(config) for node, config in nodes.items()}
        self.keys, self.names = dict(keys or {}), dict(names or {})
        self.sent: dict[str, Message] = {}
        self.log: list[tuple[int, str]] = []  # node and kind of every message
        self.meddle: Callable[[int, Message, Message], Message | None] = lambda n, m, reply: reply
        self._numbers = itertools.count(1)
        self._replies: dict[str, Message] = {}

    def set_run(self, run: Any) -> None:
        """Nothing to do."""

    @property
    def run(self) -> Any:
        """Nobody asks."""
        raise NotImplementedError

    def create_message(self, *args: Any, **kwargs: Any) -> Message:
        """Nobody asks."""
        raise NotImplementedError

    def get_node_ids(self) -> Iterable[int]:
        return list(self.nodes)

    def get_nodes(self) -> Iterable[NodeInfo]:
        return [
            NodeInfo(
                node_id=node, public_key=self.keys.get(node, b""), name=self.names.get(node, "")
            )
            for node in self.nodes
        ]

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        ids = []
        for message in messages:
            id = f"message {next(self._numbers)}"
            message.metadata._message_id = id  # type: ignore[attr-defined]
            self.sent[id] = message
            ids.append(id)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        for id in message_ids:
            if id in self.sent:
                self._work(self.sent.pop(id), id)
        return [self._replies.pop(id) for id in list(message_ids) if id in self._replies]

    def _work(self, message: Message, id: str) -> None:
        node = message.metadata.dst_node_id
        if node not in self.nodes:
            return
        message = as_sent(message)
        if "task" in message.content:  # else it is not ours
            self.log.append((node, str(message.content["task"]["kind"])))  # type: ignore[index, call-overload]
        context = Context(
            run_id=1,
            node_id=node,
            node_config=self.nodes[node],
            state=RecordDict(),
            run_config=self.run_config,
        )
        try:
            reply: Message | None = self.app(message, context)
        except Exception as problem:
            reply = Message(Error(2, f"{type(problem).__name__}: {problem}"), reply_to=message)
        assert reply is not None
        reply = self.meddle(node, message, reply)
        if reply is not None:
            self._replies[id] = as_sent(reply) if reply.has_content() else reply

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        return self.pull_messages(self.push_messages(messages))

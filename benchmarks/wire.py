"""Bytes of one filtered visit over Flower: as we count them, and as Flower writes them.

    .venv/bin/python benchmarks/wire.py           seconds; CIFAR-10 is read from FEDDIV_DATA

The last training visit of a short run, over a Grid in this process whose messages go through
Flower's own serialisation.
"""

import sys
import tempfile
from collections.abc import Mapping
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from flwr.app import Context, Message, RecordDict
from flwr.common.serde import recorddict_to_proto
from tests.flower.grids import LocalGrid

from feddiv.federation.traffic import message_bytes, reply_bytes
from feddiv.flower import client_app, serve
from feddiv.flower.records import read_message, read_reply, read_task

SETTINGS = "against=[] clients.count=2 clients.fraction=1.0 train.epochs=1 warmup.iterations=1"
SIZES = {"quickstart": "data.images=100", "cifar10-laptop": "data.images=100 data.test_images=20"}
METHODS = ("feddiv", "feddiv-paper", "fedavg")


def last_visit(preset: str, method: str, out: Path) -> tuple[Message, Message]:
    """Message and reply of the last visit that trains."""
    run = {"preset": preset, "method-name": method, "rounds": 3, "out": str(out)}
    run |= {"settings": f"{SETTINGS} {SIZES[preset]}"}
    grid = LocalGrid(client_app(), {node: {"partition-id": node} for node in range(2)}, run)
    seen: list[tuple[Message, Message]] = []

    def meddle(node: int, message: Message, reply: Message) -> Message:
        if read_task(message.content).kind == "train":
            seen.append((message, reply))
        return reply

    grid.meddle = meddle
    context = Context(run_id=1, node_id=0, node_config={}, state=RecordDict(), run_config=run)
    with redirect_stdout(StringIO()):
        serve(grid, context)
    return seen[-1]


def written(message: Message) -> int:
    """Bytes of its content as Flower writes it."""
    return len(recorddict_to_proto(message.content).SerializeToString())


def small(payload: Mapping[str, Any]) -> int:
    """Bytes of all but the weights and n_k."""
    return sum(value.nbytes for value in payload.values())


def main() -> None:
    """Print the table."""
    print("| setting | method | up | of it the filter | down | of it the filter | up, Flower |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for preset in SIZES:
        for method in METHODS:
            with tempfile.TemporaryDirectory() as folder:
                message, reply = last_visit(preset, method, Path(folder) / "run")
            down = read_message(message.content, "train")
            up = read_reply(reply.content, read_task(message.content).address, down)
            share = small(up.payload) / reply_bytes(up)
            cells = [
                preset,
                method,
                f"{reply_bytes(up):,}",
                f"{small(up.payload):,} ({share:.2%})",
                f"{message_bytes(down):,}",
                f"{small(down.payload):,}",
                f"{written(reply):,}",
            ]
            print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()

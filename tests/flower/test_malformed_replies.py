"""Malformed replies through Flower's own serialisation: each is refused, and no other is lost."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("flwr")

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.task_identity import TaskIdentity
from tests.federation.malformed import (
    EVERY,
    Rng,
    Seen,
    extra_entry,
    hostile_run,
    malformed,
    missing_entry,
    no_model,
    odd_tensor,
    other_size,
    pick,
    spoilt_entry,
)
from tests.flower.grids import LocalGrid
from tests.flower.trial import lines, run_config, served, trial_grid

from feddiv.federation.reply_check import Refused, check_reply
from feddiv.flower.records import PACKED, VisitAddress, read_reply, reply_records
from feddiv.flower.seats import audited, reply_in, unreadable
from feddiv.methods.contract import Reply
from feddiv.testing.odd_clients import write_trial

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor"),
]
HERE = VisitAddress("ab" * 16, 3, 1, "", 0)
ALL = 20_000
WRITTEN = [other_size, missing_entry, extra_entry, spoilt_entry, no_model, odd_tensor]
BAD = 69  # the node of client 1


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> list[Seen]:
    """An honest reply to every kind of message of every method."""
    found = []
    for name in EVERY:
        folder = tmp_path_factory.mktemp("honest")
        settings = write_trial(folder / "data") | {"method.name": name, "against": []}
        _, log = hostile_run(settings, folder / "run", 0)
        found += [replace_client(seen) for seen in log.honest.values()]
    assert len(found) > len(EVERY)
    return found


def replace_client(seen: Seen) -> Seen:
    return replace(seen, reply=replace(seen.reply, client=HERE.client))


Contents = dict[str, bytes]


def on_the_wire(records: RecordDict) -> tuple[str, Contents]:
    """An answer as the objects that Flower sends, by their ids."""
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1
    with no_object_id_recompute():
        message = Message(records, dst_node_id=1, message_type="train")
        objects = get_all_nested_objects(message)
        return message.object_id, {id: each.deflate() for id, each in objects.items()}


def verdict(id: str, contents: Contents, seen: Seen) -> str:
    """What the server makes of it: why it is refused, or nothing."""
    try:
        try:
            message = inflate_object_from_contents(id, dict(contents))
        except Exception as problem:  # as the federation does around Flower's pull
            raise unreadable(problem) from None
        reply = reply_in(message, HERE, seen.sent)
        check_reply(reply, seen.kind, seen.sent, seen.size)
    except Refused as reason:
        return str(reason)
    return ""


HEADERS = [
    b"{'descr': '<f4', 'fortran_order': True, 'shape': (2,), }",
    b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
    b"{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }",
    b"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }",
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }",
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (999999999999, 999999999999), }",
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (1e9,), }",
    b"{'descr': '<f4', 'fortran_order': False, 'shape': " + b"(" * 5000,
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (" + b"9" * 50000 + b",), }",
    b"'''",
    b"((((((",
    b"\x00" * 100,
    b"{" * 60000,
]


def with_array(records: RecordDict, rng: Rng, change: Callable[[bytes], bytes]) -> bool:
    """Change the bytes of one array; False where there is none."""
    models = [name for name in records if name.startswith("weights.")]
    if not models:
        return False
    name = pick(rng, models)
    arrays = dict(records[name])
    key = pick(rng, arrays)
    data = change(arrays[key].data)
    if data == arrays[key].data:
        return False
    arrays[key] = Array("uint8", (len(data),), PACKED, data)
    records[name] = ArrayRecord(arrays)
    return True


def mutated(data: bytes, rng: Rng, start: int = 0, stop: int | None = None) -> bytes:
    """Some bytes of a stretch changed, put in, taken out."""
    stretch = bytearray(data[start:stop])
    rest = b"" if stop is None else data[stop:]
    for _ in range(int(rng.integers(1, 6))):
        place = int(rng.integers(len(stretch) + 1))
        byte = int(pick(rng, [*b"{}()[],':\"\\\n#0919x", *rng.integers(0, 256, 8)]))
        way = rng.integers(4)
        if way == 0 and place < len(stretch):
            stretch[place] = byte
        elif way == 1:
            stretch.insert(place, byte)
        elif way == 2:
            del stretch[place : place + int(rng.integers(1, 20))]
        else:
            stretch[place:place] = bytes([byte]) * int(rng.integers(1, 400))
    return data[:start] + bytes(stretch) + rest


def bad_header(seen: Seen, rng: Rng) -> RecordDict | None:
    """A model of which one entry has a header that no numpy writes for it."""
    records = reply_records(HERE, seen.reply)

    def change(data: bytes) -> bytes:
        start = pick(rng, [found.start() for found in re.finditer(rb"\x93NUMPY", data)])
        return data[:start] + changed(data[start:])

    def changed(data: bytes) -> bytes:
        end = data.index(b"\n") + 1
        if rng.random() < 0.3:
            text = pick(rng, HEADERS)
            size = min(len(text), 65535).to_bytes(2, "little")
            return b"\x93NUMPY\x01\x00" + size + text + b"\n" + data[end:]
        if rng.random() < 0.1:
            return data[: int(rng.integers(len(data)))]
        # Not the spaces at the end, which may be any number of them.
        return mutated(data, rng, 0, data.rindex(b"}", 0, end))

    return records if with_array(records, rng, change) else None


def bad_record(seen: Seen, rng: Rng) -> RecordDict:
    """Records that are missing, of another kind, too many, or hold something odd."""
    records = reply_records(HERE, seen.reply)
    name = pick(rng, records)
    long = "n" * 10_000
    way = int(rng.integers(12))
    if way == 0:
        del records[name]
    elif way == 1:
        odd = [ConfigRecord({"a": 1}), MetricRecord({"a": 1}), ArrayRecord({"a": torch.ones(1)})]
        records[name] = pick(rng, odd)
    elif way == 2:
        records[pick(rng, ["weights.other", "weights.", "task", "\x1b[1m", long])] = ConfigRecord()
    elif way == 3:
        records["metrics"][pick(rng, ["", "secret", long, "\x1b"])] = pick(rng, [1.0, [1.0], 2])
    elif way == 4:
        records["metrics"] = MetricRecord({str(n): 1.0 for n in range(1001)})
    elif way == 5:
        records["payload"] = ConfigRecord({f"{n}:shape": "0" for n in range(2001)})
    elif way == 6:
        records["payload"]["a"] = pick(rng, [1.5, "a", [1], ["1.5"], [b"1"], [True], b"1"])
        records["payload"]["a:shape"] = "1"
    elif way == 7:
        shapes = ["-1", "1e3", " 1", "٣", "1x" * 100 + "1", "9" * 5000, "0x0x0", "x", "\x1b"]
        records["payload"]["a"] = [1.0]
        records["payload"]["a:shape"] = pick(rng, shapes)
    elif way == 8:
        key = pick(rng, records["answer"])
        records["answer"][key] = pick(rng, [-7, "seven", [1], 2**63, True, 1.5, b"x", long])
    elif way == 9:
        records["answer"]["more"] = pick(rng, [1, "x"])
    elif way == 10:
        del records["answer"][pick(rng, records["answer"])]
    else:
        records["problem"] = pick(
            rng,
            [
                ConfigRecord({"text": long}),
                ConfigRecord(),
                MetricRecord(),
                ConfigRecord({"text": 1}),
            ],
        )
    return records


def bad_reply(seen: Seen, rng: Rng) -> RecordDict | None:
    """What is malformed before it is written, as far as Flower can write it."""
    reply = malformed(seen, rng, WRITTEN)
    try:
        tensors = [each for state in (reply.weights or {}).values() for each in state.values()]
        if any(each.requires_grad for each in tensors):
            return None  # which is lost on the way
        records = reply_records(HERE, reply)
        on_the_wire(records)
    except Exception:
        return None
    return records


def bad_objects(seen: Seen, rng: Rng) -> tuple[str, Contents]:
    """Bytes of Flower's objects changed, whatever they are: also some that matter to nobody."""
    id, contents = on_the_wire(reply_records(HERE, seen.reply))
    while True:
        victim = pick(rng, contents)
        head = contents[victim].index(b"\x00")
        spoilt = mutated(contents[victim], rng, 0, pick(rng, [head, None]))
        if rng.random() < 0.05:
            spoilt = contents[victim][: head + 1] + b"[" * 100_000
        if spoilt != contents[victim]:
            return id, {**contents, victim: spoilt}


def check_malformed(honest: list[Seen], count: int, objects: int, seed: int) -> None:
    """So many replies are refused; of so many with changed objects none does any harm."""
    rng = np.random.default_rng(seed)
    refused = harmless = 0
    while refused < count:
        seen = pick(rng, honest)
        records = pick(rng, [bad_header, bad_record, bad_reply])(seen, rng)
        if records is not None:
            found = verdict(*on_the_wire(records), seen)
            assert found, list(records)
            assert len(found) <= 300
            assert found.isprintable()
            refused += 1
    for _ in range(objects):
        seen = pick(rng, honest)
        harmless += not verdict(*bad_objects(seen, rng), seen)
    assert harmless < objects / 2


def test_honest_replies_are_taken(honest: list[Seen]) -> None:
    assert [verdict(*on_the_wire(reply_records(HERE, seen.reply)), seen) for seen in honest] == [
        ""
    ] * len(honest)


def test_malformed_replies_are_refused(honest: list[Seen]) -> None:
    check_malformed(honest, 500, 300, seed=1)


@pytest.mark.full
def test_twenty_thousand_malformed_replies_are_refused(honest: list[Seen]) -> None:
    check_malformed(honest, ALL, ALL // 4, seed=2)


class WireGrid(LocalGrid):
    """Replies lie at the SuperLink as objects: a pull takes them out, then makes messages of them.

    `spoil(node, kind, objects)` changes those of a reply, whose message comes first.
    """

    spoil: Callable[[int, str, Contents], Contents] = staticmethod(lambda n, k, contents: contents)

    def pull_messages(self, message_ids: Any) -> Any:
        """As HttpGrid does it: what a pull has found is forgotten before it is read."""
        ids = list(message_ids)
        kinds = {id: str(self.sent[id].content["task"]["kind"]) for id in ids if id in self.sent}
        nodes = {id: self.sent[id].metadata.dst_node_id for id in ids if id in self.sent}
        taken = []
        for message in super().pull_messages(ids):
            id, root = message.metadata.reply_to_message_id, message.object_id
            contents = {
                key: each.deflate() for key, each in get_all_nested_objects(message).items()
            }
            taken.append((root, self.spoil(nodes[id], kinds[id], contents)))
        return [inflate_object_from_contents(root, contents) for root, contents in taken]


def wire_grid(config: dict[str, Any]) -> WireGrid:
    grid = trial_grid(config)
    grid.__class__ = WireGrid
    return grid


def unreadable_objects(contents: Contents) -> Contents:
    return {id: content[: len(content) // 2] for id, content in contents.items()}


def deep_json(contents: Contents) -> Contents:
    """Flower reads names of records as JSON."""
    return {
        id: b"RecordDict  2\x00" + b"[" * 200_000 if content.startswith(b"RecordDict") else content
        for id, content in contents.items()
    }


def run_against(
    spoil: Callable[[int, str, Contents], Contents], out: Path, **settings: Any
) -> tuple[Any, list[dict[str, Any]]]:
    config = run_config(out, **settings)
    grid = wire_grid(config)
    grid.spoil = spoil  # type: ignore[method-assign]
    return served(grid, config), lines(out / "clients.jsonl")


@pytest.mark.parametrize("ruin", [unreadable_objects, deep_json], ids=lambda each: each.__name__)
def test_a_reply_that_flower_cannot_read_costs_nobody_else(ruin: Any, tmp_path: Path) -> None:
    def spoil(node: int, kind: str, contents: Contents) -> Contents:
        return ruin(contents) if node == BAD and kind != "hello" else contents

    run, notes = run_against(spoil, tmp_path / "run")
    said = [line["missing"] for line in notes if "missing" in line and "client" in line]
    assert said
    assert all(line.startswith("client 1: its reply cannot be read (") for line in said)
    assert {client for line in run.rounds for client in line["missing"]} == {1}
    assert run.summary["assessed_clients"] == 2


def test_a_hello_that_flower_cannot_read_keeps_nobody_out(tmp_path: Path, capsys: Any) -> None:
    def spoil(node: int, kind: str, contents: Contents) -> Contents:
        return unreadable_objects(contents) if node == BAD else contents

    run, _ = run_against(spoil, tmp_path / "run", federation__sites=2)
    assert run.summary["assessed_clients"] == 2
    assert "node 69: its reply cannot be read (" in capsys.readouterr().out


def test_nobody_answers_in_the_place_of_another(tmp_path: Path) -> None:
    """A reply says itself which message it answers: that is only what its site says."""
    asked: dict[int, str] = {}

    def meddle(node: int, message: Message, reply: Message) -> Message:
        asked[node] = message.metadata.message_id
        if node == BAD and message.content["task"]["kind"] != "hello":
            reply.metadata.__dict__["_reply_to_message_id"] = asked[70]
            reply.content["answer"]["client"] = 0
        return reply

    config = run_config(tmp_path / "run")
    grid = trial_grid(config)
    grid.meddle = meddle
    run = served(grid, config)
    notes = [each for each in lines(tmp_path / "run" / "clients.jsonl") if "missing" in each]
    said = {each["missing"] for each in notes if "client" in each}
    assert said == {"client 1: answers another message than its own"}
    assert {client for line in run.rounds for client in line["missing"]} == {1}


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ({"flagged": 1.0, "wrong": 5.0, "caught": 4.0}, "more labels are caught than are flagged"),
        ({"flagged": 0.5}, "counts that are none"),
        ({"flagged": -1.0}, "outside"),
        ({"flagged": float("nan")}, "not finite"),
    ],
)
def test_an_audit_that_cannot_be_is_refused(counts: dict[str, float], said: str) -> None:
    with pytest.raises(Refused, match=said):
        audited(Reply(0, 10, metrics=counts), 10)


def test_a_huge_reply_is_refused_by_its_size(honest: list[Seen]) -> None:
    seen = next(each for each in honest if each.reply.weights)
    records = reply_records(HERE, seen.reply)
    name = next(name for name in records if name.startswith("weights."))
    key = next(iter(records[name]))
    records[name][key].data = bytes(50_000_000)
    with pytest.raises(Refused, match=r"holds 50,000,000 bytes, at most [\d,]+ can come"):
        read_reply(records, HERE, seen.sent)
    records = reply_records(HERE, seen.reply)
    records["payload"] = ConfigRecord({"a": [0.0] * 1_500_000, "a:shape": "1500000"})
    with pytest.raises(Refused, match=r"holds 1,500,000 numbers, at most [\d,]+ can come"):
        read_reply(records, HERE, seen.sent)

"""Files of others, at random: read, or refused by the one error that their reader promises."""

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from feddiv.core.errors import UserError
from feddiv.core.files import Unreadable, json_object, load_tensors
from feddiv.core.trees import NotATree, assemble, pack, unpack, unpack_parts
from feddiv.data.published.cifar_n import read_annotators
from feddiv.federation.client_memory import MemoryRecords, MemoryStore, saved_records
from feddiv.runs.checkpoint import Checkpoints, Standing
from feddiv.runs.loop import Cut, Tally
from feddiv.runs.run_folder import journal_lines

FEW = settings(
    max_examples=100, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)
TAGS = st.sampled_from(["tensor", "array", "fields", "items", "list", "tuple", "net", "step"])
TREES = st.recursive(
    JSON,
    lambda inner: st.dictionaries(TAGS, inner | st.lists(inner, max_size=3), max_size=2),
    max_leaves=6,
)


@dataclass(frozen=True)
class State:
    net: dict[str, torch.Tensor]
    totals: np.ndarray
    step: int = 0
    maybe: "State | None" = None


STATE = State({"w": torch.arange(6.0).view(2, 3)}, np.arange(4), 3)


@st.composite
def mutated(draw: st.DrawFn, whole: bytes) -> bytes:
    """Some bytes are others, or gone, or come again."""
    content = bytearray(whole)
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, max(len(content) - 1, 0)))
        piece = draw(st.binary(max_size=9))
        content[place : place + draw(st.integers(0, 9))] = piece
    return bytes(content)


@FEW
@given(st.binary(max_size=200) | mutated(pack(STATE)))
def test_records(record: bytes) -> None:
    with suppress(NotATree):
        _, tensors = unpack_parts(record)
        assert sum(each.numel() for each in tensors.values()) <= len(record) * len(tensors)
    with suppress(NotATree):
        unpack(State, record)


@FEW
@given(TREES)
def test_trees(tree: Any) -> None:
    for kind in (State, Tally, Standing, tuple[Tally, ...], dict[str, State]):
        with suppress(NotATree):
            assemble(kind, tree, {"a": torch.zeros(2)})


@pytest.mark.parametrize(
    "table",
    [
        [["a", "uint8", [1 << 62, 4], 0]],
        [["a", "uint8", [1 << 32, 1 << 32], 0]],  # the product wraps to nothing in 64 bits
        [["a", "uint8", [-1, -1], 0]],
        [["a", "uint8", [2], -8]],
        [["a", "load", [1], 0]],
        [["a", "uint8", [True], 0]],
        [["a", "uint8", [0] * 100, 0]],
        [[["a"], "uint8", [1], 0]],
        3,
    ],
)
def test_arrays_that_are_not_there(table: Any) -> None:
    header = json.dumps({"tree": None, "tensors": table}).encode()
    with pytest.raises(NotATree):
        unpack_parts(len(header).to_bytes(8, "little") + header + bytes(16))


def test_records_nested_without_end() -> None:
    header = b'{"tensors":[],"tree":' + b'{"list":[' * 50_000
    with pytest.raises(NotATree):
        unpack_parts(len(header).to_bytes(8, "little") + header)
    deep: Any = 1
    for _ in range(5_000):
        deep = {"list": [deep]}
    with pytest.raises(NotATree):
        assemble(State, deep, {})


@FEW
@given(mutated(MemoryRecords(State, None).write(STATE, "visit")))
def test_memories(record: bytes) -> None:
    records = MemoryRecords(State, Path("no-such-folder"))
    for read in (records.read, records.file_of):
        with suppress(NotATree, Unreadable):
            read(record)


@pytest.mark.parametrize("name", ["../x.safetensors", "/etc/x.safetensors", "a\0.safetensors", "a"])
def test_memories_refer_to_no_file_elsewhere(name: str, tmp_path: Path) -> None:
    whole = MemoryRecords(State, tmp_path).write(STATE, "visit")
    kept = unpack_parts(whole)[0]
    assert kept["file"].startswith("visit-")
    header = json.dumps({"tree": {**kept, "file": name}, "tensors": []}).encode()
    forged = len(header).to_bytes(8, "little") + header
    for read in (MemoryRecords(State, tmp_path).read, MemoryRecords(State, tmp_path).file_of):
        with pytest.raises(Unreadable, match="which is no name of a model's file"):
            read(forged)


@FEW
@given(st.lists(st.lists(st.integers(-(2**62), 2**62), min_size=3, max_size=3), max_size=4))
def test_places_of_memories(places: list[list[int]]) -> None:
    table = torch.tensor(places, dtype=torch.int64).reshape(-1, 3)
    with suppress(Unreadable):
        found = saved_records({"arena": torch.zeros(64, dtype=torch.uint8), "places": table})
        assert sum(map(len, found.values())) <= 64
    with suppress(Unreadable):
        MemoryStore().restore({"arena": table, "places": table})


class Clients:
    """As much of a federation as a checkpoint asks for."""

    def save(self) -> dict[str, torch.Tensor]:
        return {"arena": torch.arange(5, dtype=torch.uint8)}

    def files(self) -> list[str]:
        return []


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> tuple[Checkpoints, bytes]:
    found = Checkpoints(tmp_path_factory.mktemp("run"), "this run", State)
    found.write(Cut(STATE), Standing({}, 1.0), Clients())  # type: ignore[arg-type]
    return found, found.found()[0].read_bytes()


@FEW
@given(st.data())
def test_checkpoints(checkpoint: tuple[Checkpoints, bytes], data: st.DataObject) -> None:
    checkpoints, whole = checkpoint
    file = checkpoints.folder / "000001-000000.safetensors"
    content = data.draw(mutated(whole) | st.binary(max_size=100))
    file.write_bytes(content)
    with suppress(Unreadable):
        load_tensors(file)
    with suppress(UserError):
        checkpoints.latest(lambda reason: None)


@FEW
@given(st.data(), TREES)
def test_what_a_checkpoint_says(
    checkpoint: tuple[Checkpoints, bytes], data: st.DataObject, value: Any
) -> None:
    checkpoints, whole = checkpoint
    file = checkpoints.folder / "000001-000000.safetensors"
    file.write_bytes(whole)
    content, tensors = checkpoints._content(file)
    key = data.draw(st.sampled_from(sorted(content)))
    checkpoints._save(file.name, {**content, key: value}, tensors)
    with suppress(UserError):
        checkpoints.latest(lambda reason: None)


@FEW
@given(st.binary(max_size=80) | JSON.map(lambda value: json.dumps(value).encode()))
def test_journals(content: bytes) -> None:
    with suppress(Unreadable):
        assert isinstance(json_object(content), dict)


def test_a_journal_is_cut_at_the_end_of_a_line(tmp_path: Path) -> None:
    (tmp_path / "a").write_text('{"a": 1}\n{"b": 2}\n{"c"')
    assert journal_lines(tmp_path / "a", 18) == [{"a": 1}, {"b": 2}]
    for size, said in ((12, "no line ends at byte 12"), (99, "shorter"), (None, "is damaged")):
        with pytest.raises(Unreadable, match=said):
            journal_lines(tmp_path / "a", size)


ANNOTATORS = b"Image-batch,Worker-id,Time\n0--4,7,3\n5--9,8,2\n"


@FEW
@given(mutated(ANNOTATORS) | st.binary(max_size=80))
def test_annotators(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "side_info.csv").write_bytes(content)
    with suppress(UserError):
        read_annotators(tmp_path / "side_info.csv")


def test_annotators_of_more_images_than_there_are(tmp_path: Path) -> None:
    (tmp_path / "side_info.csv").write_bytes(ANNOTATORS.replace(b"5--9", b"5--999999999999"))
    with pytest.raises(UserError, match="image batch 5--999999999999 is impossible"):
        read_annotators(tmp_path / "side_info.csv")

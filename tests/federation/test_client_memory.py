"""The store of clients' memories against a plain dict."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from feddiv.federation.client_memory import MemoryRecords, MemoryStore


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 12), st.binary(min_size=1, max_size=3000)), max_size=6),
        max_size=12,
    )
)
def test_it_remembers_the_last_record_of_each_client(exchanges: list) -> None:
    store, plain = MemoryStore(), dict[int, bytes]()
    for number, exchange in enumerate(exchanges):
        for client, record in exchange:
            store.stage(client, record)
        if number % 3 == 2:
            store.discard()
        else:
            store.commit()
            plain |= dict(exchange)
        if number % 4 == 3:
            again = MemoryStore()
            again.restore(store.tensors())
            store = again
        assert {client: store.get(client) for client in range(14)} == {
            client: plain.get(client) for client in range(14)
        }
        assert store.clients() == sorted(plain)


def test_what_is_staged_does_not_count_before_the_commit() -> None:
    store = MemoryStore()
    store.stage(1, b"new")
    assert store.get(1) is None
    store.commit()
    assert store.get(1) == b"new"


def test_ten_thousand_clients_take_little_more_than_their_bytes() -> None:
    store = MemoryStore()
    for round_ in range(3):
        for client in range(10_000):
            store.stage(client, bytes(1000 + round_ * 100))
        store.commit()
    size = sum(tensor.numel() * tensor.element_size() for tensor in store.tensors().values())
    assert size < 3 * 10_000 * 1200


@dataclass(frozen=True)
class Keeper:
    """A memory with a net in it."""

    net: dict[str, torch.Tensor]
    bias: np.ndarray


def keeper(value: float) -> Keeper:
    return Keeper({"w": torch.full((50, 50), value)}, np.array([value]))


def test_nets_live_in_files(tmp_path: Path) -> None:
    records = MemoryRecords(Keeper, tmp_path / "nets")
    first, second = records.write(keeper(1), "000001-1"), records.write(keeper(2), "000001-2")
    assert len(first) < 1000 < 50 * 50 * 4
    assert records.file_of(first).startswith("000001-1-")
    assert torch.equal(records.read(first).net["w"], torch.full((50, 50), 1.0))
    assert records.read(second).bias == [2.0]
    assert records.read(None) is None
    assert len(list((tmp_path / "nets").iterdir())) == 2


def test_without_a_folder_nets_stay_in_the_record() -> None:
    records = MemoryRecords(Keeper, None)
    record = records.write(keeper(3), "x")
    assert records.file_of(record) == ""
    assert torch.equal(records.read(record).net["w"], torch.full((50, 50), 3.0))


@pytest.mark.parametrize("plain", [None, 7])
def test_memories_without_arrays(plain: object) -> None:
    records = MemoryRecords(type(plain), None)
    assert records.read(records.write(plain, "x")) == plain

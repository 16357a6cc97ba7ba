"""States, memories and replies survive being written down."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from feddiv.core.trees import NotATree, assemble, dismantle, pack, unpack


@dataclass(frozen=True)
class Leaf:
    array: np.ndarray
    label: str = "x"


@dataclass(frozen=True)
class Tree:
    net: dict[str, torch.Tensor]
    sizes: dict[int, int]
    leaf: Leaf
    leaves: tuple[Leaf, ...] = ()
    maybe: Leaf | None = None
    anything: dict[str, Any] = field(default_factory=dict)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return type(other) is type(one) and one.dtype == other.dtype and np.array_equal(one, other)
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(v, other[k]) for k, v in one.items())
    if isinstance(one, tuple | list):
        return type(one) is type(other) and all(map(same, one, other)) and len(one) == len(other)
    if isinstance(one, Leaf | Tree):
        return type(one) is type(other) and same(vars(one), vars(other))
    return type(one) is type(other) and one == other


def test_a_tree_comes_back_as_it_was() -> None:
    tree = Tree(
        net={"w": torch.arange(6.0).view(2, 3), "steps": torch.tensor(4)},
        sizes={3: 10, 7: 20},
        leaf=Leaf(np.array([1.5, -0.0, 3.0]), "ä"),
        leaves=(Leaf(np.zeros((0, 2))), Leaf(np.array(7))),
        anything={"list": [1, 2.5, None, True, "s"], "nested": {"tuple": (1, (2,))}},
    )
    assert same(tree, unpack(Tree, pack(tree)))
    assert same(tree, assemble(Tree, *dismantle(tree)))
    assert unpack(type(None), pack(None)) is None
    assert unpack(int, pack(4)) == 4


@given(
    arrays(
        st.sampled_from([np.float64, np.float32, np.int64, np.int32, np.uint8, np.bool_]),
        array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
    )
)
def test_any_array_comes_back_bit_for_bit(array: np.ndarray) -> None:
    back = unpack(Leaf, pack(Leaf(array))).array
    assert (back.dtype, back.shape, back.tobytes()) == (array.dtype, array.shape, array.tobytes())


def test_arrays_of_any_memory_layout() -> None:
    base = np.arange(12.0).reshape(3, 4)
    fixed = np.arange(3)
    fixed.flags.writeable = False
    for array in (base.T, base[:, ::2], base[::-1], np.asfortranarray(base), fixed):
        assert np.array_equal(unpack(Leaf, pack(Leaf(array))).array, array)


def test_paths_that_would_be_mixed_up_are_refused() -> None:
    one, two = np.zeros(1), np.ones(1)
    for tree in ({"a/b": one, "a": {"b": two}}, {1: one, "1": two}):
        with pytest.raises(NotATree, match="same path"):
            pack(tree)


def test_tensors_keep_their_type() -> None:
    for dtype in (torch.bfloat16, torch.float16, torch.int64, torch.bool):
        net = {"w": torch.tensor([[0, 1], [1, 0]]).to(dtype)}
        assert same(net, unpack(dict[str, torch.Tensor], pack(net)))


def test_what_is_read_has_memory_of_its_own() -> None:
    array = np.zeros(3)
    record = pack(Leaf(array))
    back = unpack(Leaf, record).array
    back += 1  # writable, and not the record's
    assert unpack(Leaf, record).array.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    "value", [{1, 2}, object(), {"x": lambda: 0}, {(1, 2): 3}, b"bytes", np.array(["a"])]
)
def test_other_things_cannot_be_written_down(value: object) -> None:
    with pytest.raises(NotATree):
        pack(value)


def test_what_is_read_never_chooses_a_class() -> None:
    record = pack(Leaf(np.zeros(2)))
    for kind in (dict[str, Any], Any, int, Tree):
        with pytest.raises(NotATree):
            unpack(kind, record)


@pytest.mark.parametrize("damage", [b"", b"nonsense", b"\x05\0\0\0\0\0\0\0{}"])
def test_damage_is_named(damage: bytes) -> None:
    with pytest.raises(NotATree):
        unpack(Leaf, damage)
    record = pack(Leaf(np.zeros(100)))
    with pytest.raises(NotATree):
        unpack(Leaf, record[: len(record) // 2])

"""What clients keep out of training."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from feddiv.core.errors import UserError
from feddiv.core.randomness import Streams
from feddiv.data import Draw
from feddiv.data.draw.held_out import check_share, held_out_size, with_held_out


def draw_of(*clients: list[int]) -> Draw:
    """Clients with these given labels, one after the other."""
    labels = np.array([label for client in clients for label in client], np.int64)
    ends = np.cumsum([0, *map(len, clients)])
    parts = tuple(np.arange(start, end) for start, end in pairwise(ends))
    return Draw("tiny", parts, labels, labels, None, "")


@pytest.mark.parametrize(
    ("samples", "share", "expected"),
    [(4, 0.9, 0), (5, 0.01, 1), (5, 0.99, 4), (10, 0.2, 2), (12, 0.2, 2), (13, 0.2, 3)],
)
def test_sizes(samples: int, share: float, expected: int) -> None:
    assert held_out_size(samples, share) == expected


def test_classes_are_held_out_in_proportion() -> None:
    draw = with_held_out(draw_of([0] * 10 + [1] * 20 + [2] * 30), 0.2, Streams(1))
    assert draw.held_out is not None
    assert np.bincount(draw.given[draw.held_out[0]]).tolist() == [2, 4, 6]
    assert np.bincount(draw.given[draw.parts[0]]).tolist() == [8, 16, 24]


def test_a_small_client_trains_on_everything_and_nobody_may_keep_out_nothing() -> None:
    draw = with_held_out(draw_of([0, 1, 0, 1], [0, 1, 0, 1, 1]), 0.2, Streams(1))
    assert draw.held_out is not None
    assert [len(part) for part in draw.held_out] == [0, 1]
    with pytest.raises(UserError, match="every client has fewer than 5 samples"):
        with_held_out(draw_of([0, 1, 0, 1]), 0.5, Streams(1))


@given(
    st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=40), min_size=1, max_size=5),
    st.floats(0.01, 0.99),
    st.integers(0, 9),
)
def test_nothing_is_lost_and_the_choice_is_that_of_the_seed(
    clients: list[list[int]], share: float, seed: int
) -> None:
    before = draw_of(*clients)
    if max(map(len, clients)) < 5:
        return
    after, again = (with_held_out(before, share, Streams(seed)) for _ in range(2))
    assert after.hash == again.hash
    assert after.held_out is not None
    for whole, kept, out in zip(before.parts, after.parts, after.held_out, strict=True):
        assert np.array_equal(np.sort(np.concatenate([kept, out])), whole)
        assert len(out) == held_out_size(len(whole), share)
        if len(out):
            counts = np.bincount(before.given[whole], minlength=4) * len(out) / len(whole)
            assert (np.abs(np.bincount(before.given[out], minlength=4) - counts) < 1).all()
    check_share(after, share)


def test_seeds_and_clients_choose_differently() -> None:
    same = [0] * 30
    draws = [with_held_out(draw_of(same, same), 0.3, Streams(seed)) for seed in (0, 1)]
    assert draws[0].hash != draws[1].hash
    assert draws[0].held_out is not None
    first, second = draws[0].held_out
    assert not np.array_equal(first, second - 30)


def test_it_is_saved_with_the_draw(tmp_path: Path) -> None:
    plain = draw_of([0, 1] * 5, [0, 1, 1])
    draw = with_held_out(plain, 0.3, Streams(0))
    draw.save(tmp_path / "draw.npz")
    again = Draw.load(tmp_path / "draw.npz")
    assert again.hash == draw.hash != plain.hash
    assert again.held_out is not None
    assert draw.held_out is not None
    assert [part.tolist() for part in again.held_out] == [p.tolist() for p in draw.held_out]
    with pytest.raises(UserError, match=r"client 0 keeps 3 of 10 samples .* would be 5"):
        check_share(again, 0.5)


def test_damage_to_the_held_out_part_is_found(tmp_path: Path) -> None:
    with_held_out(draw_of([0, 1] * 5), 0.3, Streams(0)).save(tmp_path / "draw.npz")
    arrays = dict(np.load(tmp_path / "draw.npz"))
    np.savez(tmp_path / "short.npz", **{**arrays, "held_out_offsets": np.array([0, 1])})
    with pytest.raises(UserError, match="'held_out_offsets' do not cover 'held_out'"):
        Draw.load(tmp_path / "short.npz")

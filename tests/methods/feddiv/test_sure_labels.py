"""Which labels are sure enough to train, and how choosy a federation can afford to be."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from feddiv.methods.feddiv.sure_labels import must_train, surest

NOBODY = np.zeros(2)  # no class has to train
ONE = np.zeros(40, np.int64)  # all of one class


@pytest.mark.parametrize(
    ("p_clean", "most_wrong", "trains"),
    [
        ([1.0, 0.9, 0.8, 0.4], 0.02, [1.0]),  # expected wrong of the first 1, 2, 3: 0, .05, .1
        ([1.0, 0.9, 0.8, 0.4], 0.06, [1.0, 0.9]),
        ([0.4, 0.8, 1.0, 0.9], 0.11, [0.8, 1.0, 0.9]),  # in any order
        ([1.0, 0.9, 0.8, 0.4], 0.5, [1.0, 0.9, 0.8]),  # .225 of all, but what looks wrong never
        ([1.0] * 9 + [0.85], 0.02, [1.0] * 9 + [0.85]),  # many sure labels carry one that is not
        ([0.85, 0.3], 0.02, []),  # alone it is not sure enough
        ([0.3], 0.02, []),
        ([], 0.02, []),
    ],
)
def test_as_many_as_are_surely_right(
    p_clean: list[float], most_wrong: float, trains: list[float]
) -> None:
    p = np.array(p_clean)
    assert p[surest(p, ONE[: len(p)], most_wrong, NOBODY)].tolist() == trains


@pytest.mark.parametrize(
    ("share", "trains"),
    [(0.0, []), (0.01, [0.9]), (1 / 3, [0.9]), (0.34, [0.9, 0.8]), (1.0, [0.9, 0.8, 0.7])],
)
def test_of_a_class_that_has_to_train_the_surest_do(share: float, trains: list[float]) -> None:
    p_clean = np.array([0.9, 0.8, 0.7, 0.1])  # three look right, and none is sure
    chosen = surest(p_clean, ONE[:4], 0.02, np.array([share, 0.0]))
    assert p_clean[chosen].tolist() == trains


def test_classes_do_not_pay_for_each_other() -> None:
    p_clean, labels = np.array([1.0, 0.99, 0.6, 0.9, 0.8]), np.array([0, 0, 0, 1, 1])
    chosen = surest(p_clean, labels, 0.02, np.array([0.0, 0.5]))
    assert chosen.tolist() == [True, True, False, True, False]


@pytest.mark.parametrize(("p_clean", "most_wrong"), [(0.95, 0.05), (0.9, 0.1), (0.98, 0.02)])
def test_labels_that_are_equal_train_together(p_clean: float, most_wrong: float) -> None:
    same, labels = np.full(100, p_clean), np.zeros(100, np.int64)
    assert surest(same, labels, most_wrong, NOBODY).all()
    assert not surest(same, labels, most_wrong - 1e-3, NOBODY).any()


def test_labels_that_an_expert_vouches_for_make_no_others_sure() -> None:
    p_clean, trusted = np.array([1.0] * 20 + [0.96] * 20 + [0.2]), np.arange(41) < 20
    labels = np.zeros(41, np.int64)
    assert surest(p_clean, labels, 0.02, NOBODY).sum() == 40
    assert surest(p_clean, labels, 0.02, NOBODY, trusted).tolist() == trusted.tolist()


@given(
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 1)), max_size=40),
    st.floats(0, 0.5),
    st.floats(0, 1),
)
def test_what_trains_is_pure_or_as_little_as_may_be(
    client: list[tuple[float, int]], most_wrong: float, share: float
) -> None:
    p_clean = np.array([p for p, _ in client])
    labels = np.array([label for _, label in client], np.int64)
    trains = surest(p_clean, labels, most_wrong, np.full(2, share))
    assert not trains[p_clean < 0.5].any()
    pure = surest(p_clean, labels, most_wrong, NOBODY)
    assert not pure.any() or (1 - p_clean[pure]).mean() <= most_wrong + 1e-9
    assert trains[pure].all()
    for label in range(2):
        right, chosen = (labels == label) & (p_clean >= 0.5), trains & (labels == label)
        assert chosen.sum() >= share * right.sum() - 1e-6
        if chosen.any():  # the surest of its class
            assert p_clean[chosen].min() >= p_clean[right & ~chosen].max(initial=0.0)


def test_a_class_trains_whole_until_enough_of_it_look_right() -> None:
    tally = np.array([[900.0, 900.0, 0.0, 900.0], [200.0, 600.0, 0.0, 300.0], np.zeros(4)])
    assert must_train(tally, 300).tolist() == [1.0, 0.5, 1.0, 1.0]
    assert must_train(tally, 0).tolist() == [0.0] * 4

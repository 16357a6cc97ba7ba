import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from feddiv.learning.quality import Confusion, auroc, filter_quality

# Two wrong labels flagged, one missed; one right label flagged, four kept.
P_CLEAN = np.array([0.1, 0.2, 0.9, 0.4, 0.5, 0.8, 0.7, 0.6])
WRONG = np.array([True, True, True, False, False, False, False, False])


def test_confusion_and_its_measures() -> None:
    counts = Confusion.of(P_CLEAN < 0.5, WRONG)
    assert counts.as_dict() == {
        "flagged_wrong": 2,
        "flagged_right": 1,
        "kept_wrong": 1,
        "kept_right": 4,
    }
    assert counts.measures() == pytest.approx(
        {"accuracy": 6 / 8, "precision": 2 / 3, "recall": 2 / 3, "f1": 2 / 3}
    )


def test_confusions_add_up() -> None:
    total = Confusion(1, 2, 3, 4) + Confusion(10, 20, 30, 40)
    assert total == Confusion(11, 22, 33, 44)
    # f1 = 2·11 / ((11+22) + (11+33))
    assert total.measures()["f1"] == pytest.approx(22 / 77)


def test_measures_without_a_denominator_are_none() -> None:
    nothing_flagged = Confusion(0, 0, 2, 3).measures()
    assert nothing_flagged == {"accuracy": 0.6, "precision": None, "recall": 0.0, "f1": 0.0}
    nothing_wrong = Confusion(0, 0, 0, 5).measures()
    assert nothing_wrong == {"accuracy": 1.0, "precision": None, "recall": None, "f1": None}
    assert set(Confusion(0, 0, 0, 0).measures().values()) == {None}


def test_auroc_by_hand_with_a_tie() -> None:
    # Wrong 0.1 and 0.5 against right 0.5 and 0.9: of 4 pairs, 3 are in order and one is a tie.
    p = np.array([0.1, 0.5, 0.5, 0.9])
    assert auroc(p, np.array([True, True, False, False])) == pytest.approx(3.5 / 4)
    assert auroc(p, np.array([False, False, True, True])) == pytest.approx(0.5 / 4)


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=2, max_size=40))
def test_auroc_is_that_of_scikit_learn(rows: list[tuple[int, bool]]) -> None:
    p = np.array([value / 4 for value, _ in rows])
    wrong = np.array([is_wrong for _, is_wrong in rows])
    if wrong.all() or not wrong.any():
        assert auroc(p, wrong) is None
    else:
        assert auroc(p, wrong) == pytest.approx(roc_auc_score(wrong, -p))


def test_filter_quality_flags_below_one_half() -> None:
    measures = filter_quality(P_CLEAN, WRONG)
    assert measures["f1"] == pytest.approx(2 / 3)
    # Pairs of a wrong and a right label: 0.1 and 0.2 lie below all five, 0.9 below none.
    assert measures["auroc"] == pytest.approx(10 / 15)
    assert filter_quality(np.array([0.5, 0.4]), np.array([True, True]))["recall"] == 0.5

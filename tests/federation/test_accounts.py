"""What clients have said in all: a total that no client can have is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feddiv.federation.accounts import Accounts
from feddiv.federation.reply_check import Refused
from feddiv.methods.contract import Declared, Facts, Kind, Reply
from feddiv.methods.feddiv.exchanges import kinds, no_counts, no_mixture, no_tally
from feddiv.methods.feddiv.feddiv_options import FedDivOptions

COUNTS = Kind({"counts": Declared((3,), -10.0, 10.0, pooled="change", impossible=no_counts)})


def said(client: int, *counts: float, samples: int = 10) -> Reply:
    return Reply(client, samples, payload={"counts": np.array(counts)})


def test_changes_add_up_to_a_clients_own_total() -> None:
    accounts = Accounts()
    accounts.enter(said(4, 7, 3, 0), COUNTS)
    accounts.enter(said(4, -2, 0, 2), COUNTS)
    accounts.enter(said(1, 0, 0, 6, samples=6), COUNTS)
    assert accounts.total("counts", 4, (3,)).tolist() == [5, 3, 2]
    assert accounts.total("counts", 1, (3,)).tolist() == [0, 0, 6]
    assert accounts.total("counts", 99, (3,)).tolist() == [0, 0, 0]


def test_a_change_within_its_bounds_that_makes_a_count_negative_is_refused() -> None:
    accounts = Accounts()
    accounts.enter(said(0, 7, 3, 0), COUNTS)
    with pytest.raises(Refused, match="counts: a count below zero"):
        accounts.enter(said(0, -8, 8, 0), COUNTS)
    with pytest.raises(Refused, match="counts of 11 samples at a client of 10"):
        accounts.enter(said(0, 1, 0, 0), COUNTS)
    assert accounts.total("counts", 0, (3,)).tolist() == [7, 3, 0]  # as before


def test_a_refused_reply_enters_none_of_its_entries() -> None:
    kind = Kind({"first": Declared((3,), pooled="change"), **COUNTS.reply})
    accounts, lie = Accounts(), {"first": np.ones(3), "counts": np.array([1.0, 0.0, 0.0])}
    with pytest.raises(Refused):
        accounts.enter(Reply(0, 10, payload=lie), kind)
    assert accounts.total("first", 0, (3,)).tolist() == [0, 0, 0]


def test_an_exchange_that_is_given_up_leaves_the_rows_as_they_were() -> None:
    accounts = Accounts()
    accounts.enter(said(0, 7, 3, 0), COUNTS)
    accounts.opened(COUNTS).enter(said(0, -7, 7, 0), COUNTS)
    assert accounts.total("counts", 0, (3,)).tolist() == [7, 3, 0]


@settings(derandomize=True, max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 3), st.lists(st.floats(-10, 10), min_size=3, max_size=3))))
def test_whatever_is_sent_a_sum_over_clients_is_one_of_their_samples(
    lies: list[tuple[int, list[float]]],
) -> None:
    accounts = Accounts()
    for client, counts in [(0, [10.0, 0.0, 0.0]), *lies]:
        try:
            accounts.enter(said(client, *counts), COUNTS)
        except Refused:
            continue
    rows = accounts.totals["counts"]
    assert rows.min() > -1e-4
    assert all(row.sum() == 0 or abs(row.sum() - 10) < 1e-4 for row in rows)


def test_a_tally_has_no_more_that_look_right_than_given_and_scores_that_labels_can_have() -> None:
    fine = np.array([[4.0, 6.0], [0.0, 6.0], [-32.0, 48.0]])
    assert no_tally(fine, 10) == ""
    assert no_tally(fine, 11) == "counts of 10 samples at a client of 11"
    assert no_tally(fine + np.array([[0, 0], [5, 0], [0, 0]]), 10) == (
        "more labels that look right than there are"
    )
    assert no_tally(fine + np.array([[0, 0], [0, 0], [-1, 0]]), 10) == "scores that no labels have"


def test_a_mixture_is_sorted_inside_the_range_of_scores_and_its_weights_sum_to_one() -> None:
    assert no_mixture(np.array([0.1, 0.9, 0.01, 0.02, 0.7, 0.3]), 10) == ""
    assert "mean above" in no_mixture(np.array([0.9, 0.1, 0.01, 0.02, 0.7, 0.3]), 10)
    assert "sum to 1" in no_mixture(np.array([0.1, 0.9, 0.01, 0.02, 0.7, 0.7]), 10)
    facts = Facts(tuple("abc"), (8,), {0: 10, 1: 30}, iid=False)
    paper = FedDivOptions.model_validate(
        {"filter": {"aggregate": "mean", "scale": "minmax", "score": "cross_entropy",
                    "second_opinion": False, "starved_below": 0.0, "no_noise_rule": False}}
    )  # fmt: skip
    mixture = kinds(paper, facts, by_trust=False)["train"].reply["mixture"]
    assert np.allclose(mixture.low[:2], 0, atol=1e-8)
    assert np.allclose(mixture.high[:4], 1, atol=1e-8)


def test_no_likelihood_is_above_certainty_or_below_what_labels_can_have() -> None:
    facts = Facts(tuple("abcd"), (8,), {0: 10}, iid=False)
    likelihood = kinds(FedDivOptions(), facts, by_trust=False)["bias"].reply["likelihood"]
    assert likelihood.impossible is not None
    assert likelihood.impossible(np.zeros(8), 10) == ""
    assert likelihood.impossible(np.full(8, 10 * np.log(1e-3 / 4)), 10) == ""
    assert likelihood.impossible(np.full(8, 0.1), 10) == "no likelihood of 10 labels"
    assert likelihood.impossible(np.full(8, 11 * np.log(1e-3 / 4)), 10)

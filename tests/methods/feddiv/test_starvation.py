"""Classes that the filter starves: numbers by hand, then two clients and a server."""

import numpy as np
import pytest

from feddiv.methods.feddiv.filter import FilterOptions
from feddiv.methods.feddiv.filter_client import ClientFilter, FilterMemory
from feddiv.methods.feddiv.filter_server import Ledger
from feddiv.methods.feddiv.starvation import class_tally, pardons

NEVER = -np.inf


def test_tally_counts_labels_labels_kept_and_their_scores() -> None:
    labels = np.array([0, 2, 0, 2, 2])
    scores = np.array([-3.0, 5.0, 1.0, 7.0, -6.0])
    kept = np.array([True, False, True, False, True])
    tally = class_tally(labels, scores, kept, 4)
    # The score of every label counts, kept or not; classes 1 and 3 have none.
    assert tally.tolist() == [[2, 0, 3, 0], [2, 0, 1, 0], [-2, 0, 6, 0]]
    assert tally.dtype == np.float64


def test_the_tally_of_nobody_is_zero() -> None:
    nobody = class_tally(np.empty(0, np.int64), np.empty(0), np.empty(0, bool), 2)
    assert nobody.tolist() == [[0, 0], [0, 0], [0, 0]]


def test_a_starved_class_is_pardoned_up_to_its_mean_score() -> None:
    # 60 of 120 labels are kept; 1 of 40 in class 2 is under a tenth of that half.
    tally = np.array([[40.0, 40, 40], [35, 24, 1], [-90, -50, 100]])
    assert pardons(tally, 0.1).tolist() == [NEVER, NEVER, 2.5]
    # 24 of 40 in class 1 are more than the overall share: never starved, whatever the limit.
    assert pardons(tally, 1.0).tolist() == [NEVER, NEVER, 2.5]


@pytest.mark.parametrize(("kept", "starved"), [(0, True), (4, True), (5, False), (6, False)])
def test_a_class_is_starved_below_the_threshold_and_not_at_it(kept: int, starved: bool) -> None:
    # 100 of 200 kept; class 1 holds 100, so a tenth of the overall share is 5 labels.
    tally = np.array([[100.0, 100], [100 - kept, kept], [-300, 400]])
    assert pardons(tally, 0.1).tolist() == [NEVER, 4.0 if starved else NEVER]


def test_a_small_class_is_measured_by_its_own_size() -> None:
    # Overall 102 of 204 kept. 2 of 4 is the overall share exactly, 4 of 100 is far below it.
    tally = np.array([[100.0, 4, 100], [96, 2, 4], [0, 0, 0]])
    assert np.isfinite(pardons(tally, 0.1)).tolist() == [False, False, True]


def test_a_class_without_labels_is_not_starved() -> None:
    tally = np.array([[10.0, 0], [10, 0], [-50, 0]])
    assert pardons(tally, 1.0).tolist() == [NEVER, NEVER]


def test_before_anything_is_seen_nobody_is_pardoned() -> None:
    assert pardons(np.zeros((3, 2)), 0.1).tolist() == [NEVER, NEVER]


def test_threshold_zero_switches_it_off() -> None:
    tally = np.array([[50.0, 50], [50, 0], [-200, 200]])
    assert pardons(tally, 0.0).tolist() == [NEVER, NEVER]


def test_where_nothing_is_kept_every_class_with_labels_is_pardoned() -> None:
    tally = np.array([[10.0, 0, 20], [0, 0, 0], [30, 0, 40]])
    assert pardons(tally, 0.1).tolist() == [3.0, NEVER, 2.0]


def test_two_clients_rescue_a_class_and_the_pardon_ends_when_it_is_learnt() -> None:
    options = FilterOptions(prior="shared", debias="none")
    mixture = np.array([-4.0, 4.0, 4.0, 4.0, 0.5, 0.5])  # clean iff the score is at most 0
    ledger, memories = Ledger.empty(2, 2).opened(options), [FilterMemory(), FilterMemory()]

    def visit(client: int, scores: np.ndarray, labels: np.ndarray) -> list[bool]:
        """One visit of a round; which labels would train."""
        received = {"mixture": mixture, "pardons": pardons(ledger.tally, options.starved_below)}
        noise_filter = ClientFilter(options, 2, memories[client], received)
        p_clean = noise_filter.p_clean(scores, labels, None)
        known = {"logits": np.zeros((len(labels), 2)), "labels": labels, "scores": scores}
        payload = noise_filter.upload(["tally"], **known, p_clean=p_clean)
        ledger.add(client, len(scores), payload)
        memories[client] = noise_filter.memory
        return ((p_clean >= 0.5) | noise_filter.pardoned(scores, labels)).tolist()

    first, second = np.array([0, 0, 0, 0]), np.array([0, 1, 1, 1])
    # Class 1 is held by the second client alone, and the model has not learnt it.
    familiar, strange = np.array([-5.0, -4, -6, 5]), np.array([-5.0, 1, 3, 8])
    assert visit(0, familiar, first) == [True, True, True, False]
    assert visit(1, strange, second) == [True, False, False, False]
    # 4 of 8 labels kept, 0 of the 3 of class 1, whose mean score is 4.
    assert pardons(ledger.tally, options.starved_below).tolist() == [NEVER, 4.0]
    assert visit(0, familiar, first) == [True, True, True, False], "nobody else is pardoned"
    assert visit(1, strange, second) == [True, True, True, False]
    # The pardoned labels are not counted as kept by the filter: the class stays starved …
    assert pardons(ledger.tally, options.starved_below).tolist() == [NEVER, 4.0]
    # … until the filter itself keeps some of it.
    learnt = np.array([-5.0, -2, -1, 6])
    assert visit(1, learnt, second) == [True, True, True, False]
    assert pardons(ledger.tally, options.starved_below).tolist() == [NEVER, NEVER]
    assert ledger.tally.tolist() == [[5, 3], [4, 2], [-15, 3]]

import numpy as np
import pytest

from feddiv.methods.feddiv.filter import FilterOptions, NoiseFilter
from feddiv.methods.feddiv.filter_server import Ledger

SEEN = FilterOptions()
ROUND = FilterOptions(members="round")
MEAN = FilterOptions(aggregate="mean")
ONE = np.array([0.0, 1.0, 0.1, 0.2, 0.5, 0.5])
TWO = np.array([0.4, 0.8, 0.3, 0.6, 0.25, 0.75])


def histogram(**bins: int) -> np.ndarray:
    counts = np.zeros(64)
    for name, count in bins.items():
        counts[int(name.removeprefix("bin"))] = count
    return counts


def test_a_total_is_the_sum_of_all_changes() -> None:
    first = Ledger.empty(3, 2).opened(SEEN)
    first.add(0, 4, {"histogram": histogram(bin3=4)})
    first.add(1, 2, {"histogram": histogram(bin3=1, bin60=1)})
    # Client 0 comes again: one of its four scores has moved from bin 3 to bin 60.
    second = first.opened(SEEN)
    second.add(0, 4, {"histogram": histogram(bin3=-1, bin60=1)})
    assert np.array_equal(second.histogram, histogram(bin3=4, bin60=2))
    assert np.array_equal(first.histogram, histogram(bin3=5, bin60=1)), "an opened copy"


def test_members_round_forgets_the_filters_and_keeps_bias_and_tally() -> None:
    ledger = Ledger.empty(2, 2).opened(ROUND)
    tally = np.array([[3.0, 1.0], [2.0, 0.0], [-9.0, 4.0]])
    everything = {"histogram": histogram(bin3=4), "softmax": np.array([3.0, 1.0]), "mixture": ONE}
    ledger.add(0, 4, {**everything, "tally": tally})
    ledger = ledger.opened(ROUND)
    assert not ledger.histogram.any()
    assert np.isnan(ledger.mixtures).all()
    assert ledger.sizes.tolist() == [0, 0]
    assert ledger.bias == pytest.approx([0.75, 0.25])
    assert np.array_equal(ledger.tally, tally)
    ledger.add(1, 2, {"histogram": histogram(bin60=2), "mixture": TWO})
    assert np.array_equal(ledger.histogram, histogram(bin60=2))


def test_the_tally_is_the_sum_of_all_changes() -> None:
    ledger = Ledger.empty(2, 2).opened(SEEN)
    ledger.add(0, 4, {"tally": np.array([[3.0, 1.0], [2.0, 0.0], [-9.0, 4.0]])})
    ledger.add(1, 2, {"tally": np.array([[0.0, 2.0], [0.0, 1.0], [0.0, 3.0]])})
    # Client 0 keeps one label more of class 1, whose score has fallen by 5.
    later = ledger.opened(SEEN)
    later.add(0, 4, {"tally": np.array([[0.0, 0.0], [0.0, 1.0], [0.0, -5.0]])})
    assert later.tally.tolist() == [[3, 3], [2, 2], [-9, 2]]
    assert ledger.tally.tolist() == [[3, 3], [2, 1], [-9, 7]], "an opened copy"


def test_the_filter_is_the_mean_over_clients_seen_and_no_others() -> None:
    ledger = Ledger.empty(5, 2).opened(MEAN)
    ledger.add(1, 1, {"mixture": ONE})
    ledger.add(4, 3, {"mixture": TWO})
    found = ledger.fitted(NoiseFilter(MEAN)).mixture
    assert found is not None
    assert found.means == pytest.approx([0.3, 0.85])  # as in the test of the formula itself
    assert found.variances == pytest.approx([0.25, 0.5])
    assert found.weights == pytest.approx([0.3125, 0.6875])


def test_only_the_newest_mixture_of_a_client_counts() -> None:
    ledger = Ledger.empty(2, 2).opened(MEAN)
    ledger.add(0, 5, {"mixture": ONE})
    ledger = ledger.opened(MEAN)
    ledger.add(0, 5, {"mixture": TWO})
    found = ledger.fitted(NoiseFilter(MEAN)).mixture
    assert found is not None
    assert [*found.means, *found.variances, *found.weights] == pytest.approx(TWO)


def test_the_pooled_filter_is_fitted_to_the_total() -> None:
    ledger = Ledger.empty(2, 2).opened(SEEN)
    ledger.add(0, 4, {"histogram": histogram(bin0=30)})
    ledger.add(1, 4, {"histogram": histogram(bin63=10)})
    found = ledger.fitted(NoiseFilter(SEEN)).mixture
    assert found is not None
    assert found.means == pytest.approx([-7.875, 7.875])
    assert found.weights == pytest.approx([0.75, 0.25])


@pytest.mark.parametrize("options", [SEEN, MEAN])
def test_nothing_sent_leaves_the_filter_as_it_was(options: FilterOptions) -> None:
    before = NoiseFilter(options)
    assert Ledger.empty(2, 2).fitted(before) is before


def test_bias_is_the_mean_softmax_over_all_samples_of_the_clients_seen() -> None:
    ledger = Ledger.empty(3, 2).opened(SEEN)
    assert ledger.bias.tolist() == [0.5, 0.5]
    # n = 1 with mean (0.9, 0.1) and n = 3 with mean (0.3, 0.7): (0.9 + 0.9) / 4 and (0.1 + 2.1) / 4
    ledger.add(0, 1, {"softmax": np.array([0.9, 0.1])})
    ledger.add(2, 3, {"softmax": 3 * np.array([0.3, 0.7])})
    assert ledger.bias == pytest.approx([0.45, 0.55])
    # Client 2 now predicts (0.5, 0.5) on average and sends the change.
    ledger.add(2, 3, {"softmax": 3 * np.array([0.2, -0.2])})
    assert ledger.bias == pytest.approx([0.6, 0.4])


def test_a_reply_without_a_filter_changes_nothing() -> None:
    ledger = Ledger.empty(2, 2)
    ledger.add(1, 9, {})
    assert ledger.sizes.tolist() == [0, 0]
    assert not ledger.histogram.any()

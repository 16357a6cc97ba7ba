"""Noise on totals: how much, on what, how often, and that it does not add up."""

import math

import numpy as np
import pytest
from scipy import stats

from feddiv.federation.accounts import Accounts
from feddiv.federation.reply_check import Refused
from feddiv.methods.contract import Budget, Declared, Facts, Kind, Reply
from feddiv.methods.feddiv.exchanges import kinds, nearest_counts
from feddiv.methods.feddiv.feddiv_options import FedDivOptions
from feddiv.methods.feddiv.filter import FilterOptions
from feddiv.privacy.noise import (
    GRID,
    NoiseMemory,
    NoisePlan,
    by_count,
    deviation,
    expected_uploads,
    gaussian,
    noise_plan,
    noised,
    noisy_kind,
)
from feddiv.privacy.options import PrivacyOptions

COUNTS = Declared((4,), -9, 9, pooled="change", sensitivity=math.sqrt(2))
KIND = Kind({"histogram": COUNTS}, models=())
PLAN = NoisePlan(ratio=2.0, uploads=3)
SECRET = bytes(32)


def uploads(changes: list, plan: NoisePlan = PLAN, secret=lambda visit: bytes([visit] * 32)):
    """What a client says of these changes, one visit after the other."""
    memory, said = NoiseMemory(), []
    for visit, change in enumerate(changes):
        payload = {"histogram": np.array(change, float)}
        grant = by_count(plan.uploads)
        payload, memory = noised(payload, KIND, memory, plan, secret(visit), grant)
        said.append(payload["histogram"])
    return said, memory


def test_noise_is_on_the_total_and_does_not_add_up() -> None:
    changes = [[9, 0, 0, 0], [-2, 2, 0, 0], [-2, 0, 2, 0]]
    said, memory = uploads(changes)
    told = memory.told["histogram"]
    assert told.total.tolist() == [5, 2, 2, 0]
    # The server adds up the changes: one noise is left, that of the last visit.
    heard = np.sum(said, axis=0)
    assert np.abs(heard - told.said).max() < 1e-9
    many = [[1, 0, 0, 0]] * 200
    said, memory = uploads(many, NoisePlan(2.0, 1000), lambda visit: visit.to_bytes(32, "big"))
    off = np.sum(said, axis=0) - [200, 0, 0, 0]
    assert np.abs(off).max() < 6 * 2 * math.sqrt(2)  # of 200 noises it would be 14 times as much


def test_after_its_uploads_a_client_repeats_itself() -> None:
    said, memory = uploads([[1, 0, 0, 0]] * 5)
    assert memory.told["histogram"].uploads == 3
    assert said[3].tolist() == said[4].tolist() == [0, 0, 0, 0]
    assert memory.told["histogram"].total.tolist() == [5, 0, 0, 0]  # it knows better


def test_the_same_question_gets_the_same_answer() -> None:
    first, _ = uploads([[1, 2, 3, 4]])
    again, _ = uploads([[1, 2, 3, 4]])
    other, _ = uploads([[1, 2, 3, 5]])
    assert (first[0] == again[0]).all()
    # Another total has other noise: the difference of two answers says nothing exact.
    assert (other[0] - first[0])[:3].any()


def test_totals_that_a_method_forgets_are_uploaded_whole() -> None:
    kind = Kind({"histogram": Declared((4,), -9, 9, pooled="total", sensitivity=1.0)}, models=())
    payload = {"histogram": np.array([4.0, 0, 0, 0])}
    once, memory = noised(payload, kind, NoiseMemory(), PLAN, SECRET, by_count(1))
    later = {"histogram": np.array([0.0, 4, 0, 0])}
    twice, _ = noised(later, kind, memory, PLAN, SECRET, by_count(1))
    assert (once["histogram"] == twice["histogram"]).all()


def test_deviation_and_shape_of_the_noise() -> None:
    assert deviation(COUNTS, PLAN) == pytest.approx(2 * math.sqrt(2))
    drawn = gaussian(bytes([7] * 32), 20_001)
    assert len(drawn) == 20_001
    assert stats.kstest(drawn, "norm").pvalue > 1e-3
    said, _ = uploads([[0, 0, 0, 0]])
    assert (said[0] / GRID == np.round(said[0] / GRID)).all()


def test_what_is_not_pooled_is_left_alone() -> None:
    payload = {"histogram": np.zeros(4), "other": np.ones(2)}
    noisy, _ = noised(payload, KIND, NoiseMemory(), PLAN, SECRET, by_count(1))
    assert noisy["other"].tolist() == [1.0, 1.0]
    assert noisy["histogram"].any()
    only, memory = noised({"other": np.ones(2)}, KIND, NoiseMemory(), PLAN, SECRET, by_count(1))
    assert only.keys() == {"other"}
    assert not memory.told


def test_the_server_leaves_room_for_noise() -> None:
    wide = noisy_kind(KIND, PLAN).reply["histogram"]
    assert wide.low == pytest.approx(-9 - 20 * 2 * math.sqrt(2))
    assert wide.impossible is None  # nobody says what is possible


def test_a_client_moves_a_noisy_sum_no_further_than_noise_may() -> None:
    declared = kinds(FedDivOptions(filter=DP, weigh_by_trust="never"), FACTS, by_trust=False)
    plan = NoisePlan(3.0, 14)
    kind = noisy_kind(declared["filter"], plan)
    accounts = Accounts().opened(kind)
    # An honest client of 100 samples, once with each of 200 noises.
    true = np.zeros(64)
    true[5], true[60] = 60, 40
    for visit in range(200):
        noise = 3 * math.sqrt(2) * gaussian(visit.to_bytes(32, "big"), 64)
        said = true + noise - accounts.total("histogram", 0, (64,))
        accounts.enter(Reply(0, 100, payload={"histogram": said}), kind)
    # A liar that sends the largest changes. The root of 64 + 10 deviations.
    lie = np.full(64, -120.0)
    lie[63] = 180.0
    with pytest.raises(Refused, match=r"from any possible total; noise is below 76.4"):
        accounts.enter(Reply(1, 100, payload={"histogram": lie}), kind)
    assert not accounts.total("histogram", 1, (64,)).any()
    # Little by little it gets no further than that either.
    step = np.zeros(64)
    step[63] = 10.0
    for _ in range(17):
        accounts.enter(Reply(1, 100, payload={"histogram": step}), kind)
    with pytest.raises(Refused, match="80 from any possible total"):
        accounts.enter(Reply(1, 100, payload={"histogram": step}), kind)
    assert accounts.total("histogram", 1, (64,))[63] == 170


# FedDiv's totals

FACTS = Facts(tuple("abcdefghij"), (8,), {0: 100, 1: 150}, True)
DP = FilterOptions(second_opinion=True, starved_below=0.0, drop_below=0.5, count_equal=True)


def test_plan_of_feddiv_counts_every_release() -> None:
    options = FedDivOptions(filter=DP, weigh_by_trust="never")
    declared = kinds(options, FACTS, by_trust=False)
    privacy = PrivacyOptions(filter="dp")
    plan = noise_plan(privacy, Budget(33, 0.5, 4), declared)
    # 25 rounds after warm-up, half of the clients in each: 13, and one before; two totals.
    assert plan.uploads == 14
    assert plan.ratio == pytest.approx(0.600229 * math.sqrt(28), rel=1e-5)
    assert expected_uploads(Budget(10, 1.0, 0)) == 11


def test_one_sample_moves_no_total_further_than_declared() -> None:
    from feddiv.methods.feddiv.filter_client import ClientFilter, FilterMemory

    declared = kinds(FedDivOptions(filter=DP), FACTS, by_trust=False)["train"].reply
    rng = np.random.default_rng(3)
    received = {"bias": rng.dirichlet(np.ones(10)), "mixture": np.array([-4, 3, 1, 1, 0.7, 0.3])}
    worst = {"histogram": 0.0, "softmax": 0.0}
    for _ in range(50):
        logits, labels = rng.normal(0, 4, (30, 10)), rng.integers(0, 10, 30)
        totals = []
        for other in (False, True):
            if other:  # one sample is another one
                logits, labels = logits.copy(), labels.copy()
                logits[5], labels[5] = rng.normal(0, 9, 10), rng.integers(0, 10)
            client = ClientFilter(DP, 10, FilterMemory(), received)
            client.keep(client.scores(logits, labels))
            totals.append(client.upload(tuple(worst), logits=logits, labels=labels))
        for name in worst:
            moved = float(np.linalg.norm(totals[0][name] - totals[1][name]))
            worst[name] = max(worst[name], moved)
    for name, moved in worst.items():
        assert 0.5 < moved <= declared[name].sensitivity + 1e-9


@pytest.mark.parametrize(
    "change",
    [{"debias": "local"}, {"count_equal": False}, {"fit": "local"}],
)
def test_no_bound_where_other_samples_count(change: dict) -> None:
    options = FedDivOptions(filter=DP.model_copy(update=change))
    assert kinds(options, FACTS, by_trust=False)["train"].reply["histogram"].sensitivity is None


def test_equal_scores_count_where_noise_has_to_hide_it() -> None:
    from feddiv.methods.feddiv.filter import NoiseFilter

    equal = np.full(5, -8.0)
    assert NoiseFilter(FilterOptions()).summarise(equal) is None
    assert NoiseFilter(DP).summarise(equal)[0] == 5


def test_nearest_counts() -> None:
    # By hand: 6 above zero have to lose 2 in all, one each; what is below zero stays out.
    assert nearest_counts(np.array([4.0, 3.0, -2.0]), 5).tolist() == [3.0, 2.0, 0.0]
    assert nearest_counts(np.array([2.0, 3.0]), 5).tolist() == [2.0, 3.0]
    found = nearest_counts(np.random.default_rng(1).normal(0, 5, 64), 100)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(100)

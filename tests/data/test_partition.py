import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from feddiv.core.errors import UserError
from feddiv.data import PARTITIONS
from feddiv.data.partition import (
    BernoulliDirichlet,
    Dirichlet,
    Iid,
    IidStratified,
    Quantity,
    Shards,
)
from feddiv.data.partition.partition_options import DealtOptions

seeds = st.integers(0, 2**32 - 1)
DEALT = [name for name, options in PARTITIONS.items() if not options.natural]


def split(options: DealtOptions, labels: np.ndarray, clients: int, seed: int) -> list[np.ndarray]:
    return list(options.deal(labels, clients, np.random.default_rng(seed)).samples)


def check_shape(parts: list[np.ndarray], clients: int, samples: int) -> None:
    assert len(parts) == clients
    held = np.concatenate(parts)
    assert held.dtype == np.int64
    assert len(np.unique(held)) == len(held)
    assert held.min() >= 0
    assert held.max() < samples
    assert all((np.diff(part) > 0).all() for part in parts)


@given(st.integers(1, 200), st.integers(1, 40), seeds)
def test_iid_deals_equal_shares(samples: int, clients: int, seed: int) -> None:
    labels = np.zeros(samples, dtype=np.int64)
    if clients > samples:
        with pytest.raises(UserError, match=f"clients={clients}: {samples} training samples"):
            split(Iid(), labels, clients, seed)
        return
    parts = split(Iid(), labels, clients, seed)
    check_shape(parts, clients, samples)
    assert {len(part) for part in parts} == {samples // clients}


@given(st.lists(st.integers(5, 30), min_size=1, max_size=6), st.integers(1, 5), seeds)
def test_stratified_clients_look_alike(sizes: list[int], clients: int, seed: int) -> None:
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(len(sizes)), sizes))
    parts = split(IidStratified(), labels, clients, seed)
    check_shape(parts, clients, len(labels))
    for part in parts:
        assert np.bincount(labels[part]).tolist() == [size // clients for size in sizes]


def test_stratified_never_drops_a_class_silently() -> None:
    with pytest.raises(UserError, match=r"class 1 has 2 samples, too few for 3 clients"):
        split(IidStratified(), np.array([0, 0, 0, 0, 1, 1]), 3, 0)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 12), st.integers(1, 6), st.floats(0.05, 1), st.floats(0.5, 50), seeds)
def test_bernoulli_dirichlet_gives_everything_away(
    clients: int, classes: int, p: float, alpha: float, seed: int
) -> None:
    labels = np.arange(600) % classes
    parts = split(BernoulliDirichlet(p=p, alpha=alpha), labels, clients, seed)
    check_shape(parts, clients, 600)
    # Every sample has a holder, so every class has an owner.
    assert sum(len(part) for part in parts) == 600
    assert min(len(part) for part in parts) >= 2


def test_ownership_follows_p() -> None:
    labels = np.arange(20_000) % 10
    parts = split(BernoulliDirichlet(p=0.3, alpha=100), labels, 50, seed=4)
    owned = np.mean([len(np.unique(labels[part])) / 10 for part in parts])
    # 500 coins of 0.3, standard deviation 0.02; redrawn empty rows add 0.01.
    assert 0.2 < owned < 0.4


def test_alpha_sets_how_unequal_the_shares_are() -> None:
    labels = np.zeros(10_000, dtype=np.int64)

    def spread(alpha: float) -> float:
        parts = split(BernoulliDirichlet(p=1, alpha=alpha, min_size=1), labels, 10, seed=1)
        return float(np.std([len(part) for part in parts]))

    # Dirichlet(a) over 10: share's variance 0.09 / (10 a + 1).
    assert spread(1.0) == pytest.approx(10_000 * np.sqrt(0.09 / 11), rel=0.6)
    assert spread(1000.0) < 100 < spread(1.0)


def test_min_size_is_kept_or_refused_with_numbers() -> None:
    labels = np.arange(200) % 4
    parts = split(BernoulliDirichlet(p=0.7, alpha=5, min_size=8), labels, 10, seed=0)
    assert min(len(part) for part in parts) >= 8
    with pytest.raises(UserError, match=r"min_size=20 .*10 clients, 200 samples") as caught:
        split(BernoulliDirichlet(p=0.7, alpha=0.1, min_size=20), labels, 10, seed=0)
    assert "\n" not in str(caught.value)


def test_impossible_ownership_is_refused() -> None:
    with pytest.raises(UserError, match=r"partition\.p=1e-09: too small for 4 clients"):
        split(BernoulliDirichlet(p=1e-9), np.arange(100) % 2, 4, 0)
    with pytest.raises(UserError, match=r"partition\.alpha=1e\+308: too extreme"):
        split(BernoulliDirichlet(alpha=1e308), np.arange(100) % 2, 4, 0)


def test_classes_that_do_not_occur_need_no_owner() -> None:
    labels = np.array([7] * 50 + [2] * 50)
    parts = split(BernoulliDirichlet(p=0.5, alpha=1), labels, 5, 3)
    check_shape(parts, 5, 100)


@pytest.mark.parametrize("name", DEALT)
def test_the_generator_decides(name: str) -> None:
    options, labels = PARTITIONS[name](), np.arange(300) % 3

    def flat(seed: int) -> list[list[int]]:
        return [part.tolist() for part in split(options, labels, 6, seed)]

    assert flat(1) == flat(1)
    assert flat(1) != flat(2)


@pytest.mark.parametrize("name", PARTITIONS)
def test_registry_describes_itself(name: str) -> None:
    options = PARTITIONS[name]
    assert options().name == name
    assert options.iid == (name in ("iid", "iid_stratified", "quantity"))
    assert options.natural == (name in ("natural", "annotator", "auto"))
    assert options.__doc__


@pytest.mark.parametrize("name", DEALT)
@pytest.mark.parametrize("clients", [0, 301])
def test_impossible_numbers_of_clients_are_refused(name: str, clients: int) -> None:
    with pytest.raises(UserError, match=f"clients={clients}:"):
        split(PARTITIONS[name](), np.arange(300) % 3, clients, 0)


@pytest.mark.parametrize(
    "wrong", [{"p": 0}, {"p": 1.1}, {"alpha": 0}, {"alpha": float("inf")}, {"min_size": 0}]
)
def test_options_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        BernoulliDirichlet.model_validate(wrong)


@settings(max_examples=60)
@given(st.integers(1, 12), st.integers(1, 6), st.floats(0.5, 50), seeds)
def test_dirichlet_gives_everything_away(
    clients: int, classes: int, alpha: float, seed: int
) -> None:
    labels = np.arange(600) % classes
    parts = split(Dirichlet(alpha=alpha), labels, clients, seed)
    check_shape(parts, clients, 600)
    assert sum(len(part) for part in parts) == 600
    assert min(len(part) for part in parts) >= 2


def test_a_small_alpha_gives_a_class_to_few() -> None:
    labels = np.arange(20_000) % 10

    def largest_share(alpha: float) -> float:
        parts = split(Dirichlet(alpha=alpha, min_size=1), labels, 20, seed=3)
        counts = np.array([np.bincount(labels[part], minlength=10) for part in parts])
        return float((counts.max(axis=0) / 2000).mean())

    assert largest_share(100) < 0.1  # 1/20 each, give or take
    assert largest_share(0.1) > 0.3


def test_dirichlet_keeps_its_minimum_or_refuses_with_numbers() -> None:
    labels = np.arange(200) % 4
    assert min(map(len, split(Dirichlet(alpha=5, min_size=10), labels, 10, 0))) >= 10
    with pytest.raises(UserError, match=r"dirichlet: alpha=0.05 .*min_size=20 .*200 samples"):
        split(Dirichlet(alpha=0.05, min_size=20), labels, 10, 0)


@given(st.integers(2, 400), st.integers(1, 12), st.integers(1, 4), seeds)
def test_shards_are_equal_and_go_to_somebody(
    samples: int, clients: int, per_client: int, seed: int
) -> None:
    labels = np.random.default_rng(1).integers(0, 7, samples)
    options = Shards(per_client=per_client)
    if samples < clients * max(per_client, 2):
        with pytest.raises(UserError, match=f"{samples} training samples are too few"):
            split(options, labels, clients, seed)
        return
    parts = split(options, labels, clients, seed)
    check_shape(parts, clients, samples)
    sizes = [len(part) for part in parts]
    assert sum(sizes) == samples
    assert max(sizes) - min(sizes) <= per_client


def test_shards_too_small_for_the_minimum_are_refused_with_numbers() -> None:
    # 20 shards of 52 samples: twelve have 3 and eight have 2, so somebody may get 4.
    labels = np.arange(52) % 4
    with pytest.raises(UserError, match="leave one with 4 of 52 samples, fewer than min_size=5"):
        split(Shards(min_size=5), labels, 10, 0)
    assert min(map(len, split(Shards(min_size=4), labels, 10, 0))) == 4


def test_two_shards_are_at_most_three_classes_each() -> None:
    # 20 shards of 50 over classes of 100: a shard has one class.
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(10), 100))
    for part in split(Shards(), labels, 10, 5):
        assert len(part) == 100
        assert len(np.unique(labels[part])) <= 2


@given(st.integers(1, 2000), st.integers(1, 30), st.floats(0, 3), seeds)
def test_quantity_follows_its_power_law(
    samples: int, clients: int, exponent: float, seed: int
) -> None:
    options, labels = Quantity(exponent=exponent, min_size=1), np.zeros(samples, dtype=np.int64)
    weights = np.arange(1, clients + 1) ** -exponent
    exact = samples * weights / weights.sum()
    if clients > samples or options.sizes(samples, clients)[-1] < 1:
        with pytest.raises(UserError, match=f"{samples}"):
            split(options, labels, clients, seed)
        return
    parts = split(options, labels, clients, seed)
    check_shape(parts, clients, samples)
    sizes = np.sort([len(part) for part in parts])[::-1]
    assert sizes.sum() == samples
    assert np.abs(sizes - exact).max() < 1 + 1e-9


def test_quantity_refuses_with_numbers() -> None:
    # 1, 1/4, 1/9, 1/16 of 100 samples: the last has 4.4.
    assert Quantity(exponent=2).sizes(100, 4).tolist() == [70, 18, 8, 4]
    with pytest.raises(UserError, match=r"smallest of 4 clients 4 of 100 samples, fewer than min"):
        split(Quantity(exponent=2, min_size=5), np.zeros(100, dtype=np.int64), 4, 0)

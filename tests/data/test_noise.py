import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from feddiv.data import NOISES, NoiseOptions, NoNoise, Symmetric

seeds = st.integers(0, 2**32 - 1)
shares = st.floats(0, 1)


def corrupt(
    noise: NoiseOptions, labels: np.ndarray, clients: int, classes: int, seed: int
) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    parts = [np.arange(client, len(labels), clients) for client in range(clients)]
    return *noise.corrupt(labels, parts, classes, np.random.default_rng(seed)), parts


@given(shares, shares, seeds)
def test_levels_are_zero_or_above_tau(rho: float, tau: float, seed: int) -> None:
    labels = np.arange(400) % 10
    given_labels, levels, parts = corrupt(Symmetric(rho=rho, tau=tau), labels, 8, 10, seed)
    assert levels.shape == (8,)
    assert levels.dtype == np.float64
    assert ((levels == 0) | ((levels >= tau) & (levels <= 1))).all()
    for part, level in zip(parts, levels, strict=True):
        if level == 0:
            assert (given_labels[part] == labels[part]).all()
    assert given_labels.dtype == np.int64
    assert given_labels.min() >= 0
    assert given_labels.max() < 10


@settings(deadline=None, max_examples=30)
@given(shares, st.integers(2, 20), seeds)
def test_wrong_labels_are_level_times_c_minus_one_over_c(
    tau: float, classes: int, seed: int
) -> None:
    labels = np.arange(20_000) % classes
    given_labels, levels, parts = corrupt(Symmetric(rho=1, tau=tau), labels, 4, classes, seed)
    for part, level in zip(parts, levels, strict=True):
        wrong = level * (1 - 1 / classes)
        bound = 6 * np.sqrt(wrong * (1 - wrong) / len(part)) + 1e-3
        assert abs(np.mean(given_labels[part] != labels[part]) - wrong) < bound


def test_rho_is_the_share_of_noisy_clients() -> None:
    labels = np.zeros(2000, dtype=np.int64)
    _, levels, _ = corrupt(Symmetric(rho=0.4, tau=0.5), labels, 2000, 10, 0)
    # Standard deviations 0.011 and 0.005.
    assert np.mean(levels > 0) == pytest.approx(0.4, abs=0.055)
    assert levels[levels > 0].mean() == pytest.approx(0.75, abs=0.03)


def test_rho_one_tau_one_redraws_every_label_uniformly() -> None:
    labels = np.full(10_000, 3)
    given_labels, levels, _ = corrupt(Symmetric(rho=1, tau=1), labels, 2, 10, 0)
    assert levels.tolist() == [1, 1]
    counts = np.bincount(given_labels, minlength=10)
    assert counts.min() > 850  # 1000 expected, standard deviation 30
    assert counts.max() < 1150


def test_first_ten_goes_only_to_the_first_ten_classes() -> None:
    labels = np.arange(5000) % 100
    noise = Symmetric(rho=1, tau=1, classes="first_ten")
    given_labels, _, _ = corrupt(noise, labels, 5, 100, 0)
    assert set(given_labels) == set(range(10))
    given_labels, _, _ = corrupt(Symmetric(rho=1, tau=1), labels, 5, 100, 0)
    assert set(given_labels) == set(range(100))


def test_first_ten_of_fewer_classes_is_all() -> None:
    labels = np.arange(600) % 4
    narrow = corrupt(Symmetric(rho=1, classes="first_ten"), labels, 3, 4, 9)[0]
    assert narrow.tolist() == corrupt(Symmetric(rho=1), labels, 3, 4, 9)[0].tolist()


def test_samples_nobody_holds_keep_their_labels() -> None:
    labels = np.full(100, 2)
    given_labels, _ = Symmetric(rho=1, tau=1).corrupt(
        labels, [np.arange(50)], 3, np.random.default_rng(0)
    )
    assert (given_labels[50:] == 2).all()
    assert (given_labels[:50] != 2).any()
    assert (labels == 2).all()


@given(seeds)
def test_no_noise_changes_nothing(seed: int) -> None:
    labels = np.arange(50) % 3
    for noise in (NoNoise(), Symmetric(rho=0, tau=0.5)):
        given_labels, levels, _ = corrupt(noise, labels, 5, 3, seed)
        assert given_labels.tolist() == labels.tolist()
        assert given_labels is not labels
        assert levels.tolist() == [0.0] * 5
        assert not noise.injects


def test_the_generator_decides() -> None:
    labels = np.arange(500) % 10
    noise = Symmetric(rho=0.8)
    first, again, other = (corrupt(noise, labels, 10, 10, seed)[0] for seed in (1, 1, 2))
    assert first.tolist() == again.tolist()
    assert first.tolist() != other.tolist()


@pytest.mark.parametrize("name", NOISES)
def test_registry_describes_itself(name: str) -> None:
    assert NOISES[name]().name == name
    assert NOISES[name].__doc__


@pytest.mark.parametrize(
    "wrong", [{"rho": -0.1}, {"rho": 1.1}, {"tau": 2}, {"classes": "some"}, {"roh": 0.5}]
)
def test_options_out_of_range_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Symmetric.model_validate(wrong)

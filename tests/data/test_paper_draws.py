"""Draws of the paper's cells: noise rates, class counts and client sizes of the benchmark."""

import numpy as np
import pytest
import torch

from feddiv.config.reading import load_experiment
from feddiv.core.randomness import Streams
from feddiv.data import Augment, DataOptions, Dataset, Draw, load_dataset, make_draw
from feddiv.data.dataset import Split
from feddiv.data.noise import Symmetric
from feddiv.data.partition import BernoulliDirichlet
from feddiv.presets import presets

pytestmark = pytest.mark.slow  # CIFAR's labels are drawn for every cell

CIFAR = [name for name in presets() if name.startswith(("cifar10-", "cifar100-"))]
IID = [name for name in CIFAR if "-iid-" in name]
NONIID = [name for name in CIFAR if "-noniid-" in name]


def labelled(name: str, classes: int) -> Dataset:
    """As many labels as CIFAR has, in an order of chance: all that partition and noise look at."""
    labels = torch.from_numpy(np.random.default_rng(0).permutation(np.arange(50_000) % classes))
    split = Split(torch.zeros(50_000, 1), labels)
    names = tuple(str(number) for number in range(classes))
    return Dataset(name, names, split, split, (0.0,), (1.0,), Augment(), labels)


@pytest.fixture(scope="module", params=["labels like CIFAR's", "CIFAR's labels"])
def data(request: pytest.FixtureRequest) -> dict[str, Dataset]:
    if request.param == "labels like CIFAR's":
        return {"cifar10": labelled("cifar10", 10), "cifar100": labelled("cifar100", 100)}
    folders = {"cifar10": "cifar_folder", "cifar100": "cifar100_folder"}
    return {
        source: load_dataset(
            DataOptions(source=source, path=request.getfixturevalue(folder)), Streams(0)
        )
        for source, folder in folders.items()
    }


def noise_of(name: str) -> Symmetric:
    noise = load_experiment(name).noise
    assert isinstance(noise, Symmetric)
    return noise


def draw_of(name: str, data: dict[str, Dataset], seed: int = 0) -> Draw:
    found = load_experiment(name, {"seed": seed})
    dataset = data[found.data.source]
    draw = make_draw(
        dataset, found.partition, found.noise, found.clients.count, Streams(found.seed)
    )
    draw.check(dataset)
    return draw


@pytest.mark.parametrize("name", [*IID, *NONIID])
def test_noise_rates_of_a_draw(name: str, data: dict[str, Dataset]) -> None:
    found = load_experiment(name)
    rho, tau = noise_of(name).rho, noise_of(name).tau
    classes = len(data[found.data.source].classes)
    noisy = []
    for seed in range(5):
        draw = draw_of(name, data, seed)
        assert draw.levels is not None
        assert draw.truth is not None
        noisy += list(draw.levels)
        assert ((draw.levels == 0) | (draw.levels >= tau)).all()
        for part, level in zip(draw.parts, draw.levels, strict=True):
            wrong = level * (1 - 1 / classes)
            bound = 5 * np.sqrt(wrong * (1 - wrong) / len(part)) + 1e-3
            assert abs(np.mean(draw.given[part] != draw.truth[part]) - wrong) < bound
    levels = np.array(noisy)
    # 500 or 250 clients: four standard deviations of a coin of 0.4 are 0.12 at most.
    assert np.mean(levels > 0) == pytest.approx(rho, abs=0.12)
    assert levels[levels > 0].mean() == pytest.approx((1 + tau) / 2, abs=0.15 * (1 - tau))


@pytest.mark.parametrize("name", IID)
def test_iid_clients_have_equal_sizes_and_every_class(name: str, data: dict[str, Dataset]) -> None:
    draw = draw_of(name, data)
    size = 500 if name.startswith("cifar10-") else 1000
    assert [len(part) for part in draw.parts] == [size] * (50_000 // size)
    assert draw.truth is not None
    classes = len(data[load_experiment(name).data.source].classes)
    for part in draw.parts:
        counts = np.bincount(draw.truth[part], minlength=classes)
        # Not stratified: hypergeometric around 50 or 10 of a class.
        assert counts.std() > 0
        assert abs(counts - size / classes).max() < 6 * np.sqrt(size / classes)


@pytest.mark.parametrize("name", NONIID)
def test_noniid_clients_hold_the_classes_of_their_coins(
    name: str, data: dict[str, Dataset]
) -> None:
    draw = draw_of(name, data)
    partition = load_experiment(name).partition
    assert isinstance(partition, BernoulliDirichlet)
    p, alpha = partition.p, partition.alpha
    assert draw.truth is not None
    classes = len(data[load_experiment(name).data.source].classes)
    sizes = np.array([len(part) for part in draw.parts])
    assert sizes.sum() == 50_000
    assert sizes.min() >= 2
    counts = np.array([np.bincount(draw.truth[part], minlength=classes) for part in draw.parts])
    assert (counts.sum(axis=0) == 50_000 // classes).all()
    assert (counts > 0).any(axis=1).all()
    # A client lacks a class by its coin, or (alpha 1) by a very small share.
    assert np.mean(counts > 0) == pytest.approx(p, abs=0.05)
    # Among owners shares are Dirichlet(alpha): std / mean is about 1 / sqrt(alpha).
    spread = np.mean([c[c > 0].std() / c[c > 0].mean() for c in counts.T])
    multinomial = 1 / np.mean([c[c > 0].mean() for c in counts.T])
    assert spread == pytest.approx(np.sqrt(1 / alpha + multinomial), rel=0.25)

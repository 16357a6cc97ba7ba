import mmap
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from feddiv.core.errors import UserError
from feddiv.data import NOISES, Augment, Dataset, NoiseOptions
from feddiv.data.dataset import Split
from feddiv.data.noise import Corruption, Instance, Mixed, NoNoise, Pair, Symmetric
from feddiv.data.noise.instance import truncated_normal

seeds = st.integers(0, 2**32 - 1)
shares = st.floats(0, 1)


def vectors(labels: np.ndarray, classes: tuple[str, ...], size: int = 4) -> Dataset:
    """Feature vectors with these labels."""
    inputs = np.random.default_rng(0).normal(size=(len(labels), size)).astype(np.float32)
    split = Split(torch.from_numpy(inputs), torch.from_numpy(labels.astype(np.int64)))
    return Dataset("vectors", classes, split, split, (0.0,), (1.0,), Augment(), split.labels)


def corruption(
    noise: NoiseOptions, data: Dataset, clients: int, seed: int
) -> tuple[Corruption, list[np.ndarray]]:
    parts = [np.arange(client, len(data.train), clients) for client in range(clients)]
    return noise.corrupt(data, parts, np.random.default_rng(seed)), parts


def corrupt(
    noise: NoiseOptions, labels: np.ndarray, clients: int, classes: int, seed: int
) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    data = vectors(labels, tuple(str(number) for number in range(classes)))
    made, parts = corruption(noise, data, clients, seed)
    assert data.train.labels.tolist() == labels.tolist(), "the truth stays"
    return made.given, made.levels, parts


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
    data = vectors(labels, ("a", "b", "c"))
    rng = np.random.default_rng(0)
    given_labels = Symmetric(rho=1, tau=1).corrupt(data, [np.arange(50)], rng).given
    assert (given_labels[50:] == 2).all()
    assert (given_labels[:50] != 2).any()
    assert (labels == 2).all()


@given(seeds)
def test_no_noise_changes_nothing(seed: int) -> None:
    labels = np.arange(50) % 3
    for noise in (NoNoise(), Symmetric(rho=0, tau=0.5), Pair(levels="constant", level=0)):
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


# Levels


def exact(kind: type, **levels: object) -> NoiseOptions:
    """Flip rates that do not spread, so that a client's level is the one asked for."""
    return kind(**levels, **({"spread": 0.0} if kind is Instance else {}))


@given(st.sampled_from([Symmetric, Pair, Instance]), shares, st.integers(1, 12), seeds)
def test_constant_levels(kind: type, level: float, clients: int, seed: int) -> None:
    labels = np.arange(60) % 3
    _, levels, _ = corrupt(exact(kind, levels="constant", level=level), labels, clients, 3, seed)
    assert levels == pytest.approx([level] * clients)


@given(st.sampled_from([Symmetric, Pair, Instance]), shares, shares, seeds)
def test_a_ramp_goes_from_low_to_high(kind: type, low: float, high: float, seed: int) -> None:
    labels = np.arange(60) % 3
    _, levels, _ = corrupt(exact(kind, levels="ramp", low=low, high=high), labels, 5, 3, seed)
    assert levels == pytest.approx([low + (high - low) * step / 4 for step in range(5)])


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"levels": "constant"}, "level is needed with levels=constant"),
        ({"levels": "ramp", "low": 0.1}, "high is needed with levels=ramp"),
        ({"level": 0.3}, "level has no meaning with levels=bernoulli"),
        ({"levels": "constant", "level": 0.3, "high": 0.5}, "high has no meaning"),
        ({"levels": "constant", "level": 0.3, "rho": 0.5}, "rho and tau have no meaning"),
        ({"levels": "ramp", "low": 0.1, "high": 1.2}, "less than or equal to 1"),
    ],
)
def test_level_keys_of_another_rule_are_refused(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Pair.model_validate(wrong)


# Pairs

CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


@settings(max_examples=30)
@given(shares, st.integers(2, 12), seeds)
def test_pairs_turn_into_the_next_class_at_the_level(level: float, classes: int, seed: int) -> None:
    labels = np.arange(20_000) % classes
    noise = Pair(levels="constant", level=level)
    given_labels, _, parts = corrupt(noise, labels, 4, classes, seed)
    turned = given_labels != labels
    assert (given_labels[turned] == (labels[turned] + 1) % classes).all()
    for part in parts:
        bound = 6 * np.sqrt(level * (1 - level) / len(part)) + 1e-3
        assert abs(turned[part].mean() - level) < bound


def test_the_usual_map_of_cifar10() -> None:
    data = vectors(np.arange(10), CIFAR10)
    made, _ = corruption(Pair(levels="constant", level=1, map="cifar10"), data, 1, 0)
    assert [CIFAR10[label] for label in made.given] == [
        "airplane", "automobile", "airplane", "dog", "horse",
        "cat", "frog", "horse", "ship", "automobile",
    ]  # fmt: skip


def test_a_map_of_ones_own() -> None:
    data = vectors(np.arange(3), ("red", "green", "blue"))
    made, _ = corruption(Pair(levels="constant", level=1, map={"red": "blue"}), data, 1, 0)
    assert made.given.tolist() == [2, 1, 2]
    for wrong, said in [({"red": "pink"}, "'pink' is no class"), ({"red": "red"}, "stay what")]:
        with pytest.raises(UserError, match=said):
            corruption(Pair(levels="constant", level=1, map=wrong), data, 1, 0)
    with pytest.raises(UserError, match=r"'truck' is no class of this data; it has red, green"):
        corruption(Pair(rho=1, map="cifar10"), data, 1, 0)
    with pytest.raises(ValidationError, match="allowed are next, cifar10 and a table"):
        Pair.model_validate({"map": "previous"})


# Instances


@settings(max_examples=20)
@given(st.floats(0.2, 0.8), st.integers(2, 10), seeds)
def test_flip_rates_have_the_clients_level(level: float, classes: int, seed: int) -> None:
    labels = np.arange(8_000) % classes
    noise = Instance(levels="constant", level=level)
    given_labels, _, parts = corrupt(noise, labels, 2, classes, seed)
    for part in parts:  # cutting off at 0 and 1 moves the mean by less than 0.006
        assert np.mean(given_labels[part] != labels[part]) == pytest.approx(level, abs=0.05)


def test_flip_rates_are_a_normal_distribution_cut_off() -> None:
    drawn = truncated_normal(0.4, 0.1, 100_000, np.random.default_rng(0))
    assert drawn.mean() == pytest.approx(0.4, abs=0.002)
    assert drawn.std() == pytest.approx(0.1, abs=0.002)
    edge = truncated_normal(0.0, 0.1, 100_000, np.random.default_rng(0))
    assert edge.min() >= 0
    assert edge.mean() == pytest.approx(0.1 * np.sqrt(2 / np.pi), abs=0.002)
    assert set(truncated_normal(0.4, 0.0, 5, np.random.default_rng(0))) == {0.4}


@pytest.mark.parametrize("level", [0.02, 0.5, 0.98])
def test_the_recorded_level_is_the_share_that_turns_wrong(level: float) -> None:
    labels = np.arange(40_000) % 4
    given_labels, levels, parts = corrupt(Instance(levels="constant", level=level), labels, 2, 4, 3)
    for part, recorded in zip(parts, levels, strict=True):
        assert np.mean(given_labels[part] != labels[part]) == pytest.approx(recorded, abs=0.01)
    clean = corrupt(Instance(levels="ramp", low=0, high=1), labels, 2, 4, 3)[1]
    assert clean[0] == 0


def pictures(folder: Path, count: int, side: int) -> Dataset:
    """Black images, mapped from a file as a source of images does."""
    (folder / "pixels").write_bytes(bytes(count * side * side * 3))
    with (folder / "pixels").open("rb") as file:
        pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    inputs = torch.frombuffer(pages, dtype=torch.uint8).view(count, side, side, 3)
    split = Split(inputs, torch.zeros(count, dtype=torch.int64), pages)
    return Dataset("black", ("a", "b"), split, split, (0.0,), (1.0,), Augment(), split.labels)


def test_large_images_are_looked_at_a_few_at_a_time(tmp_path: Path) -> None:
    data = pictures(tmp_path, 300, 128)  # 118 MB as float64
    tracemalloc.start()
    made, _ = corruption(Instance(levels="constant", level=1, spread=0), data, 1, 0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert made.given.tolist() == [1] * 300
    assert peak < 100e6


@pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel what is mapped")
def test_pages_of_a_mapped_file_are_let_go(tmp_path: Path) -> None:
    data = pictures(tmp_path, 300, 128)
    corruption(Instance(levels="constant", level=1, spread=0), data, 1, 0)
    mapped = Path("/proc/self/smaps").read_text().split(str(tmp_path / "pixels"))[1]
    resident = next(line for line in mapped.splitlines() if line.startswith("Rss:"))
    assert int(resident.split()[1]) == 0  # kB


def test_features_decide_which_class_a_label_turns_into() -> None:
    # Two kinds of sample in one class: each turns into what its own direction points at.
    labels = np.zeros(4000, dtype=np.int64)
    data = vectors(labels, tuple("abcdef"))
    kind = np.arange(4000) % 2
    data.train.inputs[:] = 0
    data.train.inputs[torch.arange(4000), torch.from_numpy(kind)] = 5000.0
    made, _ = corruption(Instance(levels="constant", level=0.5), data, 1, 7)
    targets = [np.unique(made.given[(kind == k) & (made.given != 0)]) for k in (0, 1)]
    assert [len(target) for target in targets] == [1, 1]
    # The projection is drawn by the seed; over several seeds the two kinds part ways.
    others = [corruption(Instance(levels="constant", level=0.5), data, 1, s)[0] for s in range(5)]
    assert any(
        set(o.given[(kind == 0) & (o.given != 0)]) != set(o.given[(kind == 1) & (o.given != 0)])
        for o in others
    )


def test_clients_share_the_projection() -> None:
    labels = np.zeros(200, dtype=np.int64)
    data = vectors(labels, tuple("abcdef"))
    data.train.inputs[:] = torch.tensor([3000.0, -2000, 1000, 500])  # the same image everywhere
    made, parts = corruption(Instance(levels="constant", level=0.9), data, 4, 2)
    assert len({int(made.given[p][made.given[p] != 0][0]) for p in parts}) == 1


# Mixtures


@given(st.sampled_from(["turns", "blocks", "random"]), st.integers(1, 20), st.integers(1, 4), seeds)
def test_kinds_are_dealt_evenly(deal: str, clients: int, kinds: int, seed: int) -> None:
    noise = Mixed.model_validate({"kinds": ["none"] * kinds, "deal": deal})
    dealt = noise.dealt(clients, np.random.default_rng(seed))
    counts = np.bincount(dealt, minlength=kinds)
    assert counts.sum() == clients
    assert counts.max() - counts.min() <= 1
    if deal == "turns":
        assert dealt.tolist() == [client % kinds for client in range(clients)]
    if deal == "blocks":
        assert (np.diff(dealt) >= 0).all()


def test_each_kind_leaves_the_others_clients_alone() -> None:
    labels = np.arange(6000) % 5
    data = vectors(labels, tuple("abcde"))
    noise = Mixed.model_validate(
        {
            "kinds": [
                "none",
                {"name": "pair", "levels": "constant", "level": 0.5},
                {"name": "symmetric", "levels": "ramp", "low": 0.2, "high": 1.0},
            ]
        }
    )
    made, parts = corruption(noise, data, 6, 4)
    assert made.kinds == ("none", "pair", "symmetric", "none", "pair", "symmetric")
    assert made.levels.tolist() == [0.0, 0.5, 0.2, 0.0, 0.5, 1.0]
    wrong = made.given != labels
    assert not wrong[parts[0]].any()
    turned = parts[1][wrong[parts[1]]]
    assert (made.given[turned] == (labels[turned] + 1) % 5).all()
    assert wrong[parts[1]].mean() == pytest.approx(0.5, abs=0.1)
    assert wrong[parts[5]].mean() == pytest.approx(0.8, abs=0.08)
    again, _ = corruption(noise, data, 6, 4)
    assert again.given.tolist() == made.given.tolist()


def test_mixtures_that_make_no_sense_are_refused() -> None:
    with pytest.raises(UserError, match=r"noise\.kinds: 'mixed' is unknown; allowed: none, sym"):
        Mixed.model_validate({"kinds": ["mixed"]})
    with pytest.raises(ValidationError, match="once only"):
        Mixed.model_validate({"kinds": ["open_set", "open_set"]})
    with pytest.raises(UserError, match=r"noise\.kinds has to list"):
        corruption(Mixed(), vectors(np.arange(3), tuple("abc")), 1, 0)

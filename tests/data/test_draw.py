import errno
import mmap
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from feddiv.core import files
from feddiv.core.errors import UserError
from feddiv.core.randomness import Streams
from feddiv.data import Dataset, Draw, client_samples, make_draw
from feddiv.data.dataset import Split
from feddiv.data.draw import fingerprint
from feddiv.data.draw.fingerprint import label_fingerprint
from feddiv.data.draw.recipe import check_recipe
from feddiv.data.draw.recipe import recipe as make_recipe
from feddiv.data.noise import Human, NoNoise, Symmetric
from feddiv.data.partition import Iid, IidStratified

MakeDataset = Callable[..., Dataset]
LABELS = [0, 1, 2, 0, 1, 2, 0, 1]


@pytest.fixture
def dataset(make_dataset: MakeDataset) -> Dataset:
    return make_dataset(LABELS, truth=LABELS)


@pytest.fixture
def draw(dataset: Dataset) -> Draw:
    return Draw(
        dataset="tiny",
        parts=(np.array([0, 3]), np.array([1, 2, 6])),
        given=np.array([0, 1, 2, 0, 1, 2, 1, 1]),
        truth=np.array(LABELS),
        levels=np.array([0.0, 0.5]),
        fingerprint=label_fingerprint(dataset.train.labels),
    )


def rewrite(path: Path, **changes: np.ndarray | None) -> None:
    with np.load(path) as archive:
        arrays = {key: archive[key] for key in archive.files} | changes
    np.savez(path, **{key: array for key, array in arrays.items() if array is not None})


def test_a_saved_draw_comes_back_whole(draw: Draw, dataset: Dataset, tmp_path: Path) -> None:
    draw.save(tmp_path / "draw.npz")
    back = Draw.load(tmp_path / "draw.npz")
    assert back.hash == draw.hash
    assert [part.tolist() for part in back.parts] == [[0, 3], [1, 2, 6]]
    assert back.given.tolist() == draw.given.tolist()
    assert back.truth is not None
    assert back.truth.tolist() == LABELS
    assert back.levels is not None
    assert back.levels.tolist() == [0.0, 0.5]
    back.check(dataset)


def test_unknown_truth_and_levels_stay_unknown(draw: Draw, tmp_path: Path) -> None:
    unknown = replace(draw, truth=None, levels=None)
    unknown.save(tmp_path / "draw.npz")
    back = Draw.load(tmp_path / "draw.npz")
    assert back.truth is None
    assert back.levels is None
    assert back.hash == unknown.hash != draw.hash


def test_the_hash_is_of_the_contents_not_of_the_file(draw: Draw, tmp_path: Path) -> None:
    path = tmp_path / "draw.npz"
    draw.save(path)
    with np.load(path) as archive:
        np.savez_compressed(path, **{key: archive[key] for key in reversed(archive.files)})
    assert Draw.load(path).hash == draw.hash


@pytest.mark.parametrize(
    "change",
    [
        {"dataset": "other"},
        {"parts": (np.array([0, 3, 1]), np.array([2, 6]))},
        {"given": np.array(LABELS)},
        {"truth": np.zeros(8, dtype=np.int64)},
        {"levels": np.array([0.0, 0.25])},
        {"fingerprint": "0"},
    ],
)
def test_the_hash_sees_every_change(draw: Draw, change: dict[str, object]) -> None:
    assert replace(draw, **change).hash != draw.hash  # type: ignore[arg-type]


def test_saving_replaces_and_leaves_nothing_behind(draw: Draw, tmp_path: Path) -> None:
    path = tmp_path / "draw.npz"
    path.write_text("old")
    draw.save(path)
    assert Draw.load(path).hash == draw.hash
    assert [entry.name for entry in tmp_path.iterdir()] == ["draw.npz"]


def test_who_may_read_a_draw_is_the_users_choice(draw: Draw, tmp_path: Path) -> None:
    """It holds labels: where new files are private, it is private too."""
    before = os.umask(0o077)
    try:
        draw.save(tmp_path / "draw.npz")
    finally:
        os.umask(before)
    assert (tmp_path / "draw.npz").stat().st_mode & 0o777 == 0o600


def test_a_draw_that_cannot_be_written_leaves_the_old_one(
    draw: Draw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw.save(tmp_path / "draw.npz")

    def full(path: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "settle", full)
    with pytest.raises(OSError, match="No space left"):
        replace(draw, dataset="other").save(tmp_path / "draw.npz")
    assert Draw.load(tmp_path / "draw.npz").hash == draw.hash
    assert [entry.name for entry in tmp_path.iterdir()] == ["draw.npz"]


def test_a_missing_draw_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"draw .*nowhere\.npz: there is no such file"):
        Draw.load(tmp_path / "nowhere.npz")


def test_truncated_foreign_and_pickled_files_are_refused(draw: Draw, tmp_path: Path) -> None:
    path = tmp_path / "draw.npz"
    draw.save(path)
    whole = path.read_bytes()
    for size in (0, 10, len(whole) // 2, len(whole) - 5):
        path.write_bytes(whole[:size])
        with pytest.raises(UserError, match=r"draw\.npz: (not an \.npz|cannot be read)"):
            Draw.load(path)
    np.savez(path, x=np.zeros(3))
    with pytest.raises(UserError, match="not a draw of feddiv"):
        Draw.load(path)
    np.savez(path, format=np.array([{}], dtype=object))
    with pytest.raises(UserError, match="cannot be read"):
        Draw.load(path)
    with pytest.raises(UserError, match="is a folder"):
        Draw.load(tmp_path)


def test_a_flipped_bit_is_noticed(draw: Draw, tmp_path: Path) -> None:
    path = tmp_path / "draw.npz"
    draw.save(path)
    damaged = bytearray(path.read_bytes())
    damaged[damaged.index(draw.given.tobytes())] ^= 1
    path.write_bytes(bytes(damaged))
    with pytest.raises(UserError, match="cannot be read"):
        Draw.load(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"given": None}, "'given' is missing"),
        ({"given": np.zeros(8)}, "'given' is float64"),
        ({"given": np.zeros((2, 4), dtype=np.int64)}, "'given' is int64"),
        ({"offsets": np.array([0, 2, 4])}, "do not cover"),
        ({"offsets": np.array([0, 7, 5])}, "go backwards"),
        ({"offsets": np.array([0])}, "do not cover"),
        ({"truth": np.zeros(3, dtype=np.int64)}, "3 true labels for 8 given"),
        ({"levels": np.zeros(5)}, "5 levels for 2 clients"),
        ({"levels": np.array([0.0, np.nan])}, "not finite"),
    ],
)
def test_damaged_arrays_are_refused(
    draw: Draw, tmp_path: Path, changes: dict[str, np.ndarray | None], message: str
) -> None:
    path = tmp_path / "draw.npz"
    draw.save(path)
    rewrite(path, **changes)
    with pytest.raises(UserError, match=message):
        Draw.load(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dataset": "other"}, "made for data 'other', not for 'tiny'"),
        ({"given": np.zeros(7, dtype=np.int64)}, "made for 7 training samples"),
        ({"fingerprint": "0"}, "other samples"),
        ({"parts": (np.array([0, 8]),)}, r"sample 8 is not in 0\.\.7"),
        ({"parts": (np.array([-1, 2]),)}, r"sample -1 is not in 0\.\.7"),
        ({"parts": (np.array([1, 2]), np.array([2, 3]))}, "held twice"),
        ({"parts": (np.array([1, 2]), np.array([], dtype=np.int64))}, "client 1 holds no"),
        ({"given": np.array([0, 1, 2, 3, 0, 0, 0, 0])}, r"given label 3 is not in 0\.\.2"),
        ({"truth": np.array([0, -1, 2, 0, 0, 0, 0, 0])}, r"true label -1 is not in 0\.\.2"),
    ],
)
def test_a_draw_refuses_data_it_does_not_fit(
    draw: Draw, dataset: Dataset, change: dict[str, object], message: str
) -> None:
    draw.check(dataset)
    with pytest.raises(UserError, match=message):
        replace(draw, **change).check(dataset)  # type: ignore[arg-type]


def test_a_draw_refuses_the_same_samples_in_another_order(draw: Draw, dataset: Dataset) -> None:
    turned = Split(dataset.train.inputs.flip(0), dataset.train.labels.flip(0))
    with pytest.raises(UserError, match="other samples of tiny"):
        draw.check(replace(dataset, train=turned))


# Inputs


def test_a_draw_knows_its_inputs_and_keeps_its_hash(
    draw: Draw, dataset: Dataset, tmp_path: Path
) -> None:
    bound = draw.bound_to(dataset)
    assert bound.hash == draw.hash
    bound.save(tmp_path / "draw.npz")
    back = Draw.load(tmp_path / "draw.npz")
    assert (back.inputs, back.test) == (bound.inputs, bound.test)
    assert back.inputs != ""
    assert back.bound_to(dataset).inputs == bound.inputs
    draw.save(tmp_path / "old.npz")
    assert Draw.load(tmp_path / "old.npz").bound_to(dataset).inputs == bound.inputs


def test_a_draw_refuses_other_inputs_under_the_same_labels(draw: Draw, dataset: Dataset) -> None:
    bound = draw.bound_to(dataset)
    swapped = dataset.train.inputs.clone()
    swapped[3] += 1
    labels = dataset.test.labels.clone()
    labels[0] = 2
    other = {
        "training inputs": replace(dataset, train=replace(dataset.train, inputs=swapped)),
        "normalisation": replace(dataset, mean=(0.5,)),
        "test samples": replace(dataset, test=replace(dataset.test, inputs=swapped)),
        "test samples ": replace(dataset, test=replace(dataset.test, labels=labels)),
    }
    for what, changed in other.items():
        bound.check(changed)  # the training labels are the same
        with pytest.raises(UserError, match=what.strip()) as caught:
            bound.bound_to(changed)
        assert "\n" not in str(caught.value)
    without = dataset.chosen_test(torch.arange(0))
    assert bound.bound_to(without).test == bound.test
    assert draw.bound_to(without).test == ""


def test_of_a_large_mapped_file_only_some_rows_are_read(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fingerprint, "MOST", 40 * 12)
    (tmp_path / "pixels").write_bytes(np.arange(100 * 12, dtype=np.uint8).tobytes())
    prints = set()
    for row in (None, 0, 99, 1):  # the first and the last are looked at, not all between
        content = bytearray((tmp_path / "pixels").read_bytes())
        if row is not None:
            content[row * 12] ^= 255
        (tmp_path / f"pixels{row}").write_bytes(content)
        with (tmp_path / f"pixels{row}").open("rb") as file:
            pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        inputs = torch.frombuffer(pages, dtype=torch.uint8).view(100, 2, 2, 3)
        mapped = replace(dataset, train=Split(inputs, torch.arange(100), pages))
        prints.add(fingerprint.training_fingerprint(mapped))
        whole = replace(dataset, train=Split(inputs.clone(), torch.arange(100)))
        assert fingerprint.training_fingerprint(whole) != fingerprint.training_fingerprint(mapped)
    assert len(prints) == 3


# How it was made


def test_the_recipe_is_kept_beside_the_hash(make_dataset: MakeDataset, tmp_path: Path) -> None:
    data = make_dataset([0, 1, 2] * 20, truth=[0, 1, 2] * 20)
    noise = Symmetric(rho=0.5, tau=0.5)
    made = make_draw(data, Iid(), noise, 6, Streams(1))
    assert made.hash == replace(made, recipe="").hash
    made.save(tmp_path / "draw.npz")
    kept = Draw.load(tmp_path / "draw.npz").recipe
    check_recipe(kept, Iid(), noise, "draw")
    with pytest.raises(UserError, match=r"draw: made with noise\.rho=0\.5, it is 0\.7 here"):
        check_recipe(kept, Iid(), Symmetric(rho=0.7, tau=0.5), "draw")
    with pytest.raises(UserError, match=r"made with noise\.name=symmetric, it is none here"):
        check_recipe(kept, Iid(), NoNoise(), "draw")
    with pytest.raises(UserError, match=r"made with partition\.name=iid, it is iid_stratified"):
        check_recipe(kept, IidStratified(), noise, "draw")
    human = make_recipe(Iid(), Human(labels="worse", path=Path("a")))
    check_recipe(human, Iid(), Human(labels="worse", path=Path("b")), "draw")
    for damage in ("{", "[1]"):
        rewrite(tmp_path / "draw.npz", recipe=np.array(damage))
        with pytest.raises(UserError, match="damaged"):
            Draw.load(tmp_path / "draw.npz")


def test_the_seed_decides_the_draw(make_dataset: MakeDataset) -> None:
    data = make_dataset([0, 1, 2] * 20, truth=[0, 1, 2] * 20)
    noise = Symmetric(rho=0.5, tau=0.5)
    first, again, other = (make_draw(data, Iid(), noise, 6, Streams(seed)) for seed in (1, 1, 2))
    assert first.hash == again.hash != other.hash
    first.check(data)
    other.check(data)


def test_the_partition_does_not_depend_on_the_noise(make_dataset: MakeDataset) -> None:
    data = make_dataset([0, 1, 2] * 20, truth=[0, 1, 2] * 20)
    clean = make_draw(data, Iid(), NoNoise(), 6, Streams(1))
    noisy = make_draw(data, Iid(), Symmetric(rho=1, tau=1), 6, Streams(1))
    assert [p.tolist() for p in clean.parts] == [p.tolist() for p in noisy.parts]
    assert clean.levels is not None
    assert clean.levels.tolist() == [0.0] * 6
    assert noisy.levels is not None
    assert noisy.levels.tolist() == [1.0] * 6


def test_whose_labels_count_as_truth(make_dataset: MakeDataset) -> None:
    labels, truth = [0, 1, 2, 0, 1, 2], [0, 1, 2, 0, 1, 1]

    def made(known: list[int] | None, noise: NoNoise | Symmetric) -> Draw:
        return make_draw(make_dataset(labels, truth=known), Iid(), noise, 2, Streams(0))

    unknown = made(None, NoNoise())
    assert unknown.truth is None
    assert unknown.levels is None
    assert unknown.kinds == ()  # nobody knows how noisy the labels are
    assert made(labels, NoNoise()).kinds == ("none", "none")

    assumed = made(None, Symmetric(rho=1))
    assert assumed.truth is not None
    assert assumed.truth.tolist() == labels
    assert assumed.levels is not None

    real_noise = made(truth, NoNoise())
    assert real_noise.given.tolist() == labels
    assert real_noise.truth is not None
    assert real_noise.truth.tolist() == truth
    assert real_noise.levels is None
    assert real_noise.kinds == ()


def test_a_client_sees_its_own_samples(draw: Draw, dataset: Dataset) -> None:
    samples = client_samples(dataset, draw, 1)
    assert len(samples) == 3
    assert samples.inputs is dataset.train.inputs
    assert samples.index.tolist() == [1, 2, 6]
    assert samples.given.tolist() == [1, 2, 1]
    assert samples.truth is not None
    assert samples.truth.tolist() == [1, 2, 0]

    def owners(batch: torch.Tensor) -> list[int]:
        return (batch * 255).round().amax(dim=(1, 2, 3)).int().tolist()

    assert owners(samples.plain(torch.tensor([2, 0]))) == [6, 1]
    assert owners(samples.plain(slice(1, None))) == [2, 6]
    assert owners(samples.augmented(torch.tensor([0, 0, 2]), torch.Generator())) == [1, 1, 6]
    assert client_samples(dataset, replace(draw, truth=None), 0).truth is None

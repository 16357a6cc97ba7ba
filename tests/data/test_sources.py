import hashlib
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from feddiv.core.errors import UserError
from feddiv.core.randomness import Streams
from feddiv.data import SOURCES, Augment, DataOptions, Dataset, load_dataset
from feddiv.data.published.benchmarks import CIFAR10
from feddiv.data.published.places import cache_folder, find


def load(seed: int = 0, **options: object) -> Dataset:
    return load_dataset(DataOptions.model_validate(options), Streams(seed))


def test_digits_are_the_real_images_and_the_same_split_for_every_seed() -> None:
    data, other = load(0), load(1)
    assert (len(data.train), len(data.test)) == (1437, 360)
    assert data.input_shape == (1, 8, 8)
    assert data.train.inputs.dtype == torch.uint8
    assert (data.train.inputs.min(), data.train.inputs.max()) == (0, 255)
    assert data.classes == tuple("0123456789")
    assert data.augment == Augment(pad=1)
    assert data.truth is data.train.labels
    assert torch.equal(data.train.inputs, other.train.inputs)
    digest = hashlib.sha256(data.train.labels.numpy().astype("<i8").tobytes()).hexdigest()
    assert digest[:16] == "6148cb9e203f16d5", "the split changed: old runs no longer compare"
    every_class = torch.bincount(data.test.labels, minlength=10)
    assert every_class.min() >= 20


def test_normalised_training_digits_have_mean_zero_and_spread_one() -> None:
    data = load()
    normal = data.transform.plain(data.train.inputs)
    assert normal.mean().item() == pytest.approx(0, abs=1e-5)
    assert normal.std().item() == pytest.approx(1, abs=1e-4)


def test_a_subset_is_chosen_by_the_seed() -> None:
    whole, first, again, other = load(), *(load(s, images=100) for s in (1, 1, 2))
    assert len(first.train) == 100
    assert len(first.test) == 360
    assert torch.equal(first.train.inputs, again.train.inputs)
    assert not torch.equal(first.train.inputs, other.train.inputs)
    assert first.truth is not None
    assert torch.equal(first.truth, first.train.labels)
    assert (first.mean, first.std) == (whole.mean, whole.std)
    rows = {row.tobytes() for row in whole.train.inputs.numpy()}
    assert all(row.tobytes() in rows for row in first.train.inputs.numpy())
    assert torch.equal(load(images=1437).train.inputs, whole.train.inputs)


def test_a_subset_of_the_test_samples_is_chosen_by_the_seed() -> None:
    whole, first, again, other = load(), *(load(s, test_images=50) for s in (1, 1, 2))
    assert (len(first.train), len(first.test)) == (1437, 50)
    assert torch.equal(first.test.inputs, again.test.inputs)
    assert not torch.equal(first.test.inputs, other.test.inputs)
    labels = {row.tobytes(): int(y) for row, y in zip(*whole_test(whole), strict=True)}
    assert all(labels[row.tobytes()] == y for row, y in zip(*whole_test(first), strict=True))
    assert torch.equal(
        load(1, images=100).train.inputs, load(1, images=100, test_images=9).train.inputs
    )


def whole_test(data: Dataset) -> tuple[np.ndarray, np.ndarray]:
    return data.test.inputs.numpy(), data.test.labels.numpy()


def test_augmentation_can_be_replaced() -> None:
    data = load(augment={"pad": 2, "flip": True})
    assert data.augment == data.transform.augment == Augment(pad=2, flip=True)
    with pytest.raises(UserError, match=r"data\.augment\.pad=8: .*8x8"):
        load(augment={"pad": 8})


def test_what_cannot_be_loaded_is_refused_in_one_line() -> None:
    with pytest.raises(UserError, match=r"=minst is unknown .*'mnist'.*; allowed are digits"):
        load(source="minst")
    with pytest.raises(UserError, match=r"data\.images=1438: there are only 1437 samples"):
        load(images=1438)
    with pytest.raises(UserError, match=r"data\.test_images=361: there are only 360 samples"):
        load(test_images=361)
    with pytest.raises(UserError, match=r"data\.path=somewhere: .*digits has no use for it"):
        load(path="somewhere")
    with pytest.raises(ValidationError):
        load(images=0)
    with pytest.raises(ValidationError):
        load(test_images=0)


@pytest.mark.parametrize("name", SOURCES)
def test_registry_describes_itself(name: str) -> None:
    assert SOURCES[name].name == name
    assert SOURCES[name].summary
    assert "\n" not in SOURCES[name].summary


@pytest.mark.slow
def test_cifar10_is_read_from_its_python_files(
    cifar_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = load(source="cifar10", path=cifar_folder)
    assert (len(data.train), len(data.test)) == (50_000, 10_000)
    assert data.input_shape == (3, 32, 32)
    assert data.classes[:3] == ("airplane", "automobile", "bird")
    assert torch.bincount(data.train.labels).tolist() == [5000] * 10
    assert torch.bincount(data.test.labels).tolist() == [1000] * 10
    assert data.train.labels[:5].tolist() == [6, 9, 9, 4, 1]
    assert data.train.inputs[0, 0, 0].tolist() == [59, 62, 63]  # the frog's first pixel
    assert data.augment == Augment(pad=4, flip=True)
    assert data.mean == (0.485, 0.456, 0.406)
    assert data.truth is data.train.labels

    monkeypatch.setenv("FEDDIV_DATA", str(cifar_folder / CIFAR10.folder))
    assert find(CIFAR10) == cifar_folder / CIFAR10.folder


def test_a_damaged_cifar_file_is_named(cifar_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / CIFAR10.folder
    folder.mkdir()
    for name in (piece.name for piece in CIFAR10.pieces):
        (folder / name).symlink_to(cifar_folder / CIFAR10.folder / name)
    broken = folder / "data_batch_1"
    broken.unlink()
    with pytest.raises(UserError, match=r"data_batch_1: missing; unpack"):
        load(source="cifar10", path=tmp_path)
    shutil.copy(cifar_folder / CIFAR10.folder / "data_batch_1", broken)
    with broken.open("r+b") as file:
        file.seek(1_000_000)
        file.write(b"\x00\x01\x02")
    with pytest.raises(UserError, match=r"data_batch_1: wrong checksum"):
        load(source="cifar10", path=tmp_path)


def test_a_missing_cifar_folder_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FEDDIV_DATA", raising=False)
    monkeypatch.setenv("FEDDIV_CACHE", str(tmp_path / "cache"))
    with pytest.raises(UserError, match=r"feddiv data get cifar10`, or set data\.path or FEDDIV_"):
        load(source="cifar10")
    with pytest.raises(UserError, match=r"data\.path=.*nowhere: there is no such folder"):
        load(source="cifar10", path=tmp_path / "nowhere")
    monkeypatch.setenv("FEDDIV_DATA", str(tmp_path))
    with pytest.raises(UserError, match=r"FEDDIV_DATA=.* holds no cifar-10-batches-py"):
        load(source="cifar10")


def test_the_cache_is_looked_at_last(
    cifar_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FEDDIV_DATA", raising=False)
    monkeypatch.setenv("FEDDIV_CACHE", str(cifar_folder))
    assert find(CIFAR10) == cifar_folder / CIFAR10.folder
    (tmp_path / "other").mkdir()
    monkeypatch.setenv("FEDDIV_DATA", str(tmp_path / "other"))
    assert find(CIFAR10) == cifar_folder / CIFAR10.folder
    (tmp_path / "other" / CIFAR10.folder).mkdir()
    assert find(CIFAR10) == tmp_path / "other" / CIFAR10.folder
    with pytest.raises(UserError, match=r"data\.path=.*: holds no cifar-10-batches-py; "):
        find(CIFAR10, tmp_path)
    monkeypatch.setenv("FEDDIV_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(UserError, match=r"FEDDIV_DATA=.*nowhere: there is no such folder"):
        find(CIFAR10)


@pytest.mark.skipif(sys.platform != "linux", reason="the rules of XDG")
def test_the_cache_is_where_the_platform_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FEDDIV_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_folder() == Path("/somewhere/feddiv")
    for not_absolute in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", not_absolute)
        assert cache_folder() == tmp_path / ".cache" / "feddiv"
    monkeypatch.setenv("FEDDIV_CACHE", "~/mine")
    assert cache_folder() == tmp_path / "mine"


@pytest.mark.slow
def test_cifar100_is_read_with_its_fine_labels(cifar100_folder: Path) -> None:
    data = load(source="cifar100", path=cifar100_folder)
    assert (len(data.train), len(data.test)) == (50_000, 10_000)
    assert data.input_shape == (3, 32, 32)
    assert data.classes[:3] == ("apple", "aquarium_fish", "baby")
    assert len(data.classes) == 100
    assert torch.bincount(data.train.labels).tolist() == [500] * 100
    assert torch.bincount(data.test.labels).tolist() == [100] * 100
    assert [data.classes[label] for label in data.train.labels[:3]] == [
        "cattle",
        "dinosaur",
        "apple",
    ]
    assert data.augment == Augment(pad=4, flip=True)
    assert (data.mean, data.std) == ((0.507, 0.487, 0.441), (0.267, 0.256, 0.276))
    own = data.train.inputs.view(-1, 3).float().mean(0) / 255
    assert torch.allclose(own, torch.tensor(data.mean), atol=1e-3), "channels are in their order"
    assert data.truth is data.train.labels


def test_a_cifar_pickle_is_not_read_before_its_checksum(tmp_path: Path) -> None:
    folder = tmp_path / CIFAR10.folder
    folder.mkdir()
    for name in (piece.name for piece in CIFAR10.pieces):
        np.save(folder / f"{name}.npy", np.zeros(1))
        (folder / f"{name}.npy").rename(folder / name)
    with pytest.raises(UserError, match=r"batches\.meta: wrong checksum"):
        load(source="cifar10", path=tmp_path)

"""MNIST and Fashion-MNIST: the same four IDX files, other pictures."""

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.web import piece

from feddiv.core.errors import UserError
from feddiv.core.randomness import Streams
from feddiv.data import Augment, DataOptions, Dataset, load_dataset
from feddiv.data.published.benchmarks import CATALOGUE, FASHION_MNIST, MNIST
from feddiv.data.sources.mnist import read_idx

TRAIN, TEST = 12, 5


def idx(array: np.ndarray) -> bytes:
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    return header + array.astype(np.uint8).tobytes()


def four_files(train: int = TRAIN, test: int = TEST) -> dict[str, bytes]:
    """Every pixel of a picture is its number; labels count up to nine and begin again."""
    files = {}
    for prefix, count in (("train", train), ("t10k", test)):
        pictures = np.broadcast_to(np.arange(count)[:, None, None], (count, 28, 28))
        files[f"{prefix}-images-idx3-ubyte"] = idx(pictures)
        files[f"{prefix}-labels-idx1-ubyte"] = idx(np.arange(count) % 10)
    return files


def write(folder: Path, files: dict[str, bytes], zipped: bool = False) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        file = folder / (f"{name}.gz" if zipped else name)
        file.write_bytes(gzip.compress(content) if zipped else content)
    return folder


def load(source: str, path: Path | None = None) -> Dataset:
    return load_dataset(DataOptions(source=source, path=path), Streams(0))


@pytest.fixture(autouse=True)
def nowhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDDIV_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("FEDDIV_DATA", raising=False)


@pytest.mark.parametrize("zipped", [False, True])
def test_the_four_files_are_read(tmp_path: Path, zipped: bool) -> None:
    data = load("mnist", write(tmp_path / "d", four_files(), zipped))
    assert data.input_shape == (1, 28, 28)
    assert data.train.inputs.shape == (TRAIN, 28, 28, 1)
    assert data.train.inputs.dtype == torch.uint8
    assert data.train.inputs[:, 3, 20, 0].tolist() == list(range(TRAIN))
    assert data.train.labels.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]
    assert data.test.labels.tolist() == [0, 1, 2, 3, 4]
    assert data.truth is data.train.labels
    assert data.classes == tuple("0123456789")
    assert (data.mean, data.std) == ((0.1307,), (0.3081,))
    assert data.augment == Augment(pad=2), "a mirrored digit is another sign"


def test_fashion_has_names_and_may_be_mirrored(tmp_path: Path) -> None:
    data = load("fashion_mnist", write(tmp_path / "d", four_files()))
    assert data.classes[0] == "T-shirt/top"
    assert data.classes[9] == "Ankle boot"
    assert len(data.classes) == 10
    assert (data.mean, data.std) == ((0.2860,), (0.3530,))
    assert data.augment == Augment(pad=2, flip=True)


@pytest.mark.parametrize(
    ("source", "folder"),
    [
        ("mnist", "MNIST/raw"),
        ("mnist", "mnist"),
        ("mnist", "."),
        ("fashion_mnist", "FashionMNIST/raw"),
        ("fashion_mnist", "fashion-mnist"),
    ],
)
def test_the_usual_folders_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, folder: str
) -> None:
    write(tmp_path / "d" / folder, four_files(), zipped=True)
    assert len(load(source, tmp_path / "d").train) == TRAIN
    monkeypatch.setenv("FEDDIV_DATA", str(tmp_path / "d"))
    assert len(load(source).train) == TRAIN
    monkeypatch.delenv("FEDDIV_DATA")
    monkeypatch.setenv("FEDDIV_CACHE", str(tmp_path / "d"))
    assert len(load(source).train) == TRAIN


def test_dotted_names_are_read_too(tmp_path: Path) -> None:
    dotted = {name.replace("-idx", ".idx"): content for name, content in four_files().items()}
    assert len(load("mnist", write(tmp_path / "d", dotted)).train) == TRAIN


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("train-images-idx3-ubyte", None, "missing, with and without .gz"),
        ("train-labels-idx1-ubyte", b"", "begins with nothing, an IDX file of bytes with 1 dim"),
        ("train-labels-idx1-ubyte", b"\0\0\x08\x03", "begins with 00 00 08 03, .* 00 00 08 01"),
        ("t10k-images-idx3-ubyte", b"\0\0\x0d\x03", "begins with 00 00 0d 03"),
        ("t10k-images-idx3-ubyte", b"\x89PNG....", "begins with 89 50 4e 47"),
        ("t10k-images-idx3-ubyte", b"\0\0\x08\x03\0\0", "ends within its header"),
        (
            "train-images-idx3-ubyte",
            four_files()["train-images-idx3-ubyte"][:-1],
            "cut off, 12 x 28 x 28 bytes",
        ),
        (
            "train-images-idx3-ubyte",
            four_files()["train-images-idx3-ubyte"] + b"\0",
            "longer than its header says",
        ),
        ("train-images-idx3-ubyte", idx(np.zeros((12, 32, 32))), "images of 32x32 pixels"),
        ("train-images-idx3-ubyte", idx(np.zeros((0, 28, 28))), "holds nothing"),
        ("train-labels-idx1-ubyte", idx(np.arange(11) % 10), "11 labels for 12 images"),
        ("train-labels-idx1-ubyte", idx(np.arange(12)), r"label 11, allowed are 0\.\.9"),
        (  # four billion pictures: their memory must not be asked for
            "t10k-images-idx3-ubyte",
            b"\0\0\x08\x03" + b"\xff" * 12 + bytes(100),
            "4294967295 x 4294967295 x 4294967295 bytes should follow",
        ),
    ],
)
@pytest.mark.parametrize("zipped", [False, True])
def test_a_file_that_is_wrong_is_named(
    tmp_path: Path, name: str, content: bytes | None, reason: str, zipped: bool
) -> None:
    files = four_files()
    if content is None:
        del files[name]
    else:
        files[name] = content
    # The first file tells the folder; without it, the folder's name does.
    write(tmp_path / "MNIST" / "raw", files, zipped)
    with pytest.raises(UserError, match=rf"{name}.*: {reason}"):
        load("mnist", tmp_path)


def test_a_gzip_file_that_is_cut_off_or_none_is_named(tmp_path: Path) -> None:
    folder = write(tmp_path / "d", four_files(), zipped=True)
    file = folder / "t10k-images-idx3-ubyte.gz"
    whole = file.read_bytes()
    for content in (whole[: len(whole) // 2], b"no gzip", whole[:-8] + b"wrongcrc"):
        file.write_bytes(content)
        with pytest.raises(UserError, match=r"t10k-images-idx3-ubyte\.gz: cannot be read"):
            load("mnist", folder)


def test_nothing_found_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"mnist: not found in the cache .*feddiv data get mnist"):
        load("mnist")
    with pytest.raises(UserError, match=r"data\.path=.*: holds no MNIST/raw; "):
        load("mnist", tmp_path)
    monkeypatch.setenv("FEDDIV_DATA", str(tmp_path))
    with pytest.raises(UserError, match=r"FEDDIV_DATA=.*: holds no MNIST/raw, nor does the cache"):
        load("mnist")


def test_the_files_of_the_other_set_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = four_files()
    pieces = tuple(piece(name, content) for name, content in files.items())
    monkeypatch.setitem(
        CATALOGUE,
        "fashion_mnist",
        FASHION_MNIST.__class__(**{**vars(FASHION_MNIST), "pieces": pieces}),
    )
    folder = write(tmp_path / "d", files, zipped=True)
    with pytest.raises(UserError, match=r"data\.source=mnist: .* are those of fashion_mnist"):
        load("mnist", folder)


def test_read_idx_gives_the_shape_of_the_header(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(idx(np.arange(24).reshape(2, 3, 4)))
    assert read_idx(tmp_path / "f", 3).tolist() == np.arange(24).reshape(2, 3, 4).tolist()


def test_both_sets_have_the_same_names() -> None:
    assert [p.name for p in MNIST.pieces] == [p.name for p in FASHION_MNIST.pieces]
    assert not {p.md5 for p in MNIST.pieces} & {p.md5 for p in FASHION_MNIST.pieces}

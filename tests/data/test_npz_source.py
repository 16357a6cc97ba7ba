from pathlib import Path

import numpy as np
import pytest
import torch

from feddiv.core.errors import UserError
from feddiv.core.randomness import Streams
from feddiv.data import DataOptions, Dataset, load_dataset

RNG = np.random.default_rng(0)
GREY = RNG.integers(0, 256, (20, 4, 6), dtype=np.uint8)
VECTORS = RNG.normal(5, 2, (20, 3))
Y = np.arange(20) % 2


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "own.npz"


def load(path: Path, **arrays: np.ndarray) -> Dataset:
    if arrays:
        np.savez(path, **arrays)
    return load_dataset(DataOptions(source="npz", path=path), Streams(0))


def test_grey_images_get_a_channel(file: Path) -> None:
    data = load(file, x=GREY, y=Y)
    assert data.input_shape == (1, 4, 6)
    assert data.train.inputs.dtype == torch.uint8
    assert data.train.labels.dtype == torch.int64
    assert data.classes == ("0", "1")
    assert data.truth is None
    expected = data.train.inputs.double() / 255
    assert data.mean == pytest.approx([expected.mean().item()])
    assert data.std == pytest.approx([expected.std(correction=0).item()])


def test_colour_images_are_normalised_by_channel(file: Path) -> None:
    x = np.zeros((10, 2, 2, 3), dtype=np.uint8)
    x[:5, ..., 0], x[..., 1] = 255, 51
    data = load(file, x=x, y=Y[:10], x_test=x, y_test=Y[:10])
    assert data.input_shape == (3, 2, 2)
    assert data.mean == pytest.approx((0.5, 0.2, 0.0))
    assert data.std == pytest.approx((0.5, 1.0, 1.0))  # constant channels are only centred


def test_feature_vectors_are_normalised_by_feature(file: Path) -> None:
    x = np.array([[1.0, 1e6, 3.0], [3.0, 1e6, -3.0]] * 5)
    data = load(file, x=x, y=Y[:10], x_test=x, y_test=Y[:10])
    assert data.input_shape == (3,)
    assert data.train.inputs.dtype == torch.float32
    assert data.mean == pytest.approx((2.0, 1e6, 0.0))
    assert data.std == pytest.approx((1.0, 1.0, 3.0))
    assert data.transform.plain(data.train.inputs[:1]).tolist() == [[-1.0, 0.0, 1.0]]


def test_a_fifth_of_every_class_is_held_out(file: Path) -> None:
    y = np.array([0] * 10 + [1] * 5 + [2] * 5)
    x = np.arange(20.0)[:, None]
    data, again = load(file, x=x, y=y), load(file)
    assert torch.bincount(data.test.labels).tolist() == [2, 1, 1]
    assert torch.bincount(data.train.labels).tolist() == [8, 4, 4]
    rows = torch.cat([data.train.inputs, data.test.inputs]).flatten()
    assert sorted(rows.tolist()) == list(range(20))
    assert torch.equal(data.test.inputs, again.test.inputs)
    assert y[data.train.inputs.flatten().int().numpy()].tolist() == data.train.labels.tolist()


def test_true_labels_follow_their_rows(file: Path) -> None:
    y_true = 1 - Y
    data = load(file, x=np.arange(20.0)[:, None], y=Y, y_true=y_true)
    rows, held = data.train.inputs.flatten().int(), data.test.inputs.flatten().int()
    assert data.truth is not None
    assert data.truth.tolist() == y_true[rows].tolist()
    assert data.train.labels.tolist() == Y[rows].tolist()
    assert data.test.labels.tolist() == y_true[held].tolist()  # judged by the truth

    data = load(file, x=VECTORS, y=Y, y_true=y_true, x_test=VECTORS[:4], y_test=Y[:4])
    assert data.truth is not None
    assert data.truth.tolist() == y_true.tolist()
    assert data.test.labels.tolist() == Y[:4].tolist()


def test_string_labels_become_sorted_classes(file: Path) -> None:
    names = np.array(["dog", "cat"])[Y]
    data = load(
        file, x=VECTORS, y=names, x_test=VECTORS[:3], y_test=np.array(["emu", "cat", "dog"])
    )
    assert data.classes == ("cat", "dog", "emu")
    assert data.train.labels[:2].tolist() == [1, 0]
    assert data.test.labels.tolist() == [2, 0, 1]


def test_class_names_set_the_order(file: Path) -> None:
    data = load(file, x=VECTORS, y=np.array(["dog", "cat"])[Y], classes=np.array(["dog", "cat"]))
    assert data.classes == ("dog", "cat")
    data = load(file, x=VECTORS, y=Y.astype(np.uint8), classes=np.array(["a", "b", "c"]))
    assert data.classes == ("a", "b", "c")


NAN = np.where(np.arange(60).reshape(20, 3) == 16, np.nan, VECTORS)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"y": Y}, "array 'x' is missing, found"),
        ({"x": VECTORS}, "array 'y' is missing"),
        ({"x": VECTORS, "y": Y, "ytrue": Y}, r"unknown arrays \['ytrue'\], allowed are x, y"),
        ({"x": VECTORS, "y": Y, "x_test": VECTORS}, "x_test without y_test"),
        ({"x": VECTORS, "y": Y, "y_test": Y}, "y_test without x_test"),
        ({"x": NAN, "y": Y}, "x holds a value that is not finite in float32, in row 5"),
        ({"x": VECTORS * 1e300, "y": Y}, "not finite in float32, in row 0"),
        ({"x": VECTORS.astype(int), "y": Y}, r"x is int64 \[20, 3\]; allowed are images"),
        ({"x": GREY.astype(float), "y": Y}, r"x is float64 \[20, 4, 6\]; allowed"),
        ({"x": np.float64(1), "y": Y}, "x is empty"),
        ({"x": VECTORS[:0], "y": Y[:0]}, "x is empty"),
        ({"x": VECTORS, "y": Y[:7]}, "y has 7 labels for 20 rows of x"),
        ({"x": VECTORS, "y": Y, "y_true": Y[:7]}, "y_true has 7 labels for 20 rows of x"),
        ({"x": VECTORS, "y": Y / 2}, r"y is float64 \[20\]; labels are integers or strings"),
        ({"x": VECTORS, "y": Y[:, None]}, r"y is int64 \[20, 1\]"),
        ({"x": VECTORS, "y": Y - 1}, r"y holds label -1, allowed are 0\.\.0"),
        ({"x": VECTORS, "y": Y * 3 - 1}, r"y holds label -1, allowed are 0\.\.2"),
        ({"x": VECTORS, "y": Y * 1000}, "label 1000 is larger than the number of samples"),
        ({"x": VECTORS, "y": Y * 0}, "only one class, 0; at least 2"),
        ({"x": VECTORS, "y": Y, "y_true": Y.astype(str)}, "mix integer and string labels"),
        ({"x": VECTORS, "y": Y, "classes": np.array(["a"])}, r"allowed are 0\.\.0"),
        ({"x": VECTORS, "y": Y * 2, "classes": np.array(["a", "b"])}, "y holds label 2"),
        ({"x": VECTORS, "y": Y, "classes": np.array(["a", "a"])}, "a name twice"),
        ({"x": VECTORS, "y": Y, "classes": np.arange(2)}, r"classes is int64 \[2\]"),
        (
            {"x": VECTORS, "y": Y.astype(str), "classes": np.array(["0", "2"])},
            "y holds '1', which is not in classes",
        ),
        (
            {"x": VECTORS, "y": Y, "x_test": VECTORS[:, :2], "y_test": Y},
            r"x_test is float64 \[20, 2\], which does not fit x, float64 \[20, 3\]",
        ),
        ({"x": VECTORS, "y": Y, "x_test": GREY, "y_test": Y}, "which does not fit x"),
        ({"x": VECTORS, "y": Y, "x_test": VECTORS, "y_test": Y[:3]}, "y_test has 3 labels"),
        ({"x": VECTORS[:4], "y": np.array([0, 0, 1, 1])}, "too few to hold out"),
        ({"x": VECTORS.astype(object), "y": Y}, "cannot be read"),
    ],
)
def test_malformed_files_are_refused_in_one_line(
    file: Path, arrays: dict[str, np.ndarray], message: str
) -> None:
    with pytest.raises(UserError, match=message) as caught:
        load(file, **arrays)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_are_no_archive_are_refused(file: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"data\.path has to name the \.npz file"):
        load_dataset(DataOptions(source="npz"), Streams(0))
    with pytest.raises(UserError, match="there is no such file"):
        load(file)
    with pytest.raises(UserError, match="is a folder"):
        load(tmp_path)
    file.write_text("x,y\n1,2\n")
    with pytest.raises(UserError, match=r"not an \.npz file"):
        load(file)


def test_numbers_that_no_sample_has_are_said(file: Path) -> None:
    (note,) = load(file, x=VECTORS, y=Y * 5).notes
    assert note.startswith("classes without a sample: 4 of 6 (1, 2, 3, …)")
    names = np.array([f"kind {number}" for number in range(6)])
    assert load(file, x=VECTORS, y=Y * 5, classes=names).notes == ()
    assert load(file, x=VECTORS, y=Y).notes == ()


def test_vectors_are_never_cropped(file: Path) -> None:
    np.savez(file, x=VECTORS, y=Y)
    options = {"source": "npz", "path": file, "augment": {"flip": True}}
    with pytest.raises(UserError, match="feature vectors can be neither cropped nor flipped"):
        load_dataset(DataOptions.model_validate(options), Streams(0))

from pathlib import Path

import pytest
import torch
from tests.data.pictures import Listener, load, picture

from feddiv.core.errors import UserError
from feddiv.data import Augment, Dataset
from feddiv.data.sources.clothing1m import MEAN, NAMES


def official(root: Path, train: int = 28, test: int = 14) -> Path:
    """The layout in which Clothing1M comes; images go into folders by their number."""
    labels: dict[str, list[str]] = {"noisy": [], "clean": []}
    keys: dict[str, list[str]] = {"noisy": [], "clean": []}
    for number in range(train + test):
        kind = "noisy" if number < train else "clean"
        name = f"images/{number % 10}/{number:04},{number}.jpg"
        picture(root / name, (number, 100, 100), (30, 40))
        keys[kind].append(name)
        labels[kind].append(f"{name} {number % 14}")
    labels["noisy"].append("images/9/not-in-the-list.jpg 3")
    for file, lines in {
        "noisy_label_kv.txt": labels["noisy"],
        "clean_label_kv.txt": labels["clean"],
        "noisy_train_key_list.txt": keys["noisy"],
        "clean_test_key_list.txt": keys["clean"],
    }.items():
        (root / file).write_text("\n".join(lines) + "\n")
    return root


def clothing(path: Path, seed: int = 0, **options: object) -> Dataset:
    return load(seed, source="clothing1m", path=path, **options)


def test_noisy_training_and_clean_test_lists(tmp_path: Path) -> None:
    data = clothing(official(tmp_path), size=28)
    assert data.classes == NAMES
    assert (len(data.train), len(data.test)) == (28, 14)
    assert data.train.labels.tolist() == [n % 14 for n in range(28)]
    assert data.test.labels.tolist() == [n % 14 for n in range(28, 42)]
    assert data.mean == MEAN
    assert data.truth is None
    assert data.augment == Augment(flip=True)


def test_a_window_is_cut_out_of_training_images(tmp_path: Path) -> None:
    data = clothing(official(tmp_path), size=28)
    assert data.train.inputs.shape == (28, 32, 32, 3)  # 256/224 of 28
    assert data.test.inputs.shape == (14, 28, 28, 3)
    assert data.input_shape == (3, 28, 28)
    for rows in (data.train.inputs[:5], data.test.inputs[:5]):
        assert data.transform.plain(rows).shape == (5, 3, 28, 28)
        random = data.transform.augmented(rows, torch.Generator().manual_seed(0))
        assert random.shape == (5, 3, 28, 28)


def test_the_usual_size_is_that_of_the_benchmark(tmp_path: Path) -> None:
    data = clothing(official(tmp_path, 3, 2), size=None)
    assert data.train.inputs.shape[1:] == (256, 256, 3)
    assert data.test.inputs.shape[1:] == (224, 224, 3)


def test_both_sizes_are_said(tmp_path: Path) -> None:
    listener = Listener()
    load(source="clothing1m", path=official(tmp_path, 3, 2), size=64, listener=listener)
    assert "5 images are resized to 64x64 pixels (training images 74x74)" in listener.said(
        "resized"
    )


def test_a_share_of_the_images_by_the_seed(tmp_path: Path) -> None:
    root = official(tmp_path)
    first, again, other = (clothing(root, seed, subset=0.5) for seed in (1, 1, 2))
    assert (len(first.train), len(first.test)) == (14, 14)
    assert torch.equal(first.train.inputs, again.train.inputs)
    assert not torch.equal(first.train.labels, other.train.labels)


def test_names_of_the_categories(tmp_path: Path) -> None:
    root = official(tmp_path)
    (root / "category_names_chn.txt").write_text("\n".join(f"类{n}" for n in range(14)))
    assert clothing(root).classes[2] == "类2"
    (root / "category_names_eng.txt").write_text("\n".join(f"class {n}" for n in range(14)) + "\n")
    assert clothing(root).classes[2] == "class 2"
    (root / "category_names_eng.txt").write_text("a\nb\n")
    with pytest.raises(UserError, match=r"noisy_label_kv\.txt line 3: class 2, allowed are 0\.\.1"):
        clothing(root)
    (root / "category_names_eng.txt").write_text("a\na\n")
    with pytest.raises(UserError, match="one name a line, all different"):
        clothing(root)


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("noisy_label_kv.txt", "images/0.jpg\n", "line 1: 'images/0.jpg' is not a path and a"),
        ("noisy_label_kv.txt", "images/0.jpg x\n", "line 1: 'images/0.jpg x' is not a path"),
        ("noisy_train_key_list.txt", "images/x.jpg\n", "images/x.jpg has no label in noisy_label"),
        ("clean_test_key_list.txt", "\n", "names no images"),
    ],
)
def test_damaged_lists(tmp_path: Path, file: str, text: str, said: str) -> None:
    root = official(tmp_path)
    (root / file).write_text(text)
    with pytest.raises(UserError, match=said):
        clothing(root)


def test_what_is_missing(tmp_path: Path) -> None:
    root = official(tmp_path)
    (root / "clean_test_key_list.txt").unlink()
    with pytest.raises(UserError, match=r"holds no clean_test_key_list\.txt"):
        clothing(root)
    with pytest.raises(UserError, match=r"data\.path has to name the folder"):
        load(source="clothing1m")

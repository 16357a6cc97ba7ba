import sys
import unicodedata
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.data.pictures import Listener, class_folders, load, reds

from feddiv.core.errors import UserError
from feddiv.data import Dataset


@pytest.fixture
def hub() -> Any:
    return pytest.importorskip("datasets", reason="no datasets, the extra vision")


def table(hub: Any, folder: Path, count: int = 10, **columns: list[Any]) -> Any:
    """Images whose red is their number; classes wurst and käse take turns."""
    class_folders(folder, count, "a")
    kinds = {"image": hub.Image(), "label": hub.ClassLabel(names=["wurst", "käse"])}
    made = {
        "image": [str(path) for path in sorted(folder.rglob("*.png"))],
        "label": [number % 2 for number in range(count)],
    }
    features = hub.Features({key: kinds[key] for key in made})
    split = hub.Dataset.from_dict(made, features=features)
    for name, values in columns.items():
        split = split.add_column(name, values)
    return split


def face(path: Path, listener: Listener | None = None, **options: object) -> Dataset:
    return load(source="huggingface", path=path, listener=listener, **options)


def test_a_saved_data_set_with_splits(hub: Any, tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    hub.DatasetDict(
        train=table(hub, tmp_path / "1", 10), test=table(hub, tmp_path / "2", 4)
    ).save_to_disk(str(saved))
    data, listener = face(saved), Listener()
    assert data.classes == ("wurst", "käse")
    assert reds(data.train.inputs) == list(range(10))
    assert data.train.labels.tolist() == [0, 1] * 5
    assert data.test.labels.tolist() == [0, 1, 0, 1]
    face(saved, listener)
    assert listener.notes == [], "it has been read before"


def test_one_table_with_clients_and_truth(hub: Any, tmp_path: Path) -> None:
    sites = ["north", "south"] * 10
    split = table(hub, tmp_path / "1", 20, site=sites, judge=["käse"] * 20)
    split.save_to_disk(str(tmp_path / "saved"))
    columns = {"client": "site", "true_label": "judge"}
    data = face(tmp_path / "saved", columns=columns)
    assert (len(data.train), len(data.test)) == (16, 4)
    assert data.clients == ("north", "south")
    assert data.holder is not None
    assert torch.equal(data.holder, data.train.labels)
    assert data.test.labels.tolist() == [1] * 4  # judged by the truth


def test_splits_may_spell_a_class_in_two_ways(hub: Any, tmp_path: Path) -> None:
    splits = {}
    for name, form in (("train", "NFC"), ("test", "NFD")):
        words = [unicodedata.normalize(form, word) for word in ("é", "b")] * 3
        splits[name] = table(hub, tmp_path / name, 6, word=words)
    hub.DatasetDict(splits).save_to_disk(str(tmp_path / "saved"))
    data = face(tmp_path / "saved", columns={"label": "word"})
    assert data.classes == ("b", unicodedata.normalize("NFC", "é"))
    assert data.train.labels.tolist() == data.test.labels.tolist() == [1, 0] * 3


def test_a_folder_of_parquet_files(
    hub: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import datasets.config

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hub")
    split = table(hub, tmp_path / "1").map(lambda row: row)
    (tmp_path / "data").mkdir()
    split.to_parquet(str(tmp_path / "data" / "train-0.parquet"))
    data = face(tmp_path / "data")
    assert data.classes == ("wurst", "käse")
    assert sorted(reds(data.train.inputs) + reds(data.test.inputs)) == list(range(10))


def test_labels_that_are_texts(hub: Any, tmp_path: Path) -> None:
    split = table(hub, tmp_path / "1", kind=["b", "a"] * 5).remove_columns("label")
    split.save_to_disk(str(tmp_path / "saved"))
    assert face(tmp_path / "saved", columns={"label": "kind"}).classes == ("a", "b")
    with pytest.raises(UserError, match=r"label column 'label' is not there; .* image, kind"):
        face(tmp_path / "saved")


def test_what_is_refused(hub: Any, tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    two = table(hub, tmp_path / "1")
    masks = [str(path) for path in sorted((tmp_path / "1").rglob("*.png"))]
    two = two.add_column("mask", masks).cast_column("mask", hub.Image())
    two.save_to_disk(str(saved))
    with pytest.raises(UserError, match=r"has image columns image, mask; set data\.columns\.image"):
        face(saved)
    assert len(face(saved, columns={"image": "mask"}).train) == 8
    for columns, said in (
        ({"image": "label"}, "not an image column of .* image, mask"),
        ({"image": "mask", "client": "site"}, "has no column 'site'"),
        ({"image": "mask", "split": "x"}, r"data\.columns\.split=x: .* has no use for it"),
    ):
        with pytest.raises(UserError, match=said):
            face(saved, columns=columns)
    two.remove_columns(["image", "mask"]).save_to_disk(str(tmp_path / "flat"))
    with pytest.raises(UserError, match=r"no image column and .* data\.source=table"):
        face(tmp_path / "flat")
    with pytest.raises(UserError, match="there is no such folder"):
        face(tmp_path / "gone")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="cannot be loaded"):
        face(tmp_path / "empty")
    with pytest.raises(UserError, match=r"give data\.path .* or data\.hub"):
        load(source="huggingface")


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UserError, match=r"needs the package datasets; pip install 'feddiv\[vision"):
        face(tmp_path)


def test_usual_columns_and_true_labels_of_the_test_split(hub: Any, tmp_path: Path) -> None:
    more = {"client": ["north", "south"] * 5, "true_label": ["wurst"] * 10}
    hub.DatasetDict(
        Train=table(hub, tmp_path / "1", 10, **more),
        Test=table(hub, tmp_path / "2", 4, true_label=["käse", "wurst", None, None]),
    ).save_to_disk(str(tmp_path / "saved"))
    data = face(tmp_path / "saved")
    assert data.clients == ("north", "south")
    assert data.truth is not None
    assert data.truth.tolist() == [0] * 10
    assert data.test.labels.tolist() == [1, 0, 0, 1]

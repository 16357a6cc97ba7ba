import csv
import sys
import unicodedata
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.data.pictures import Listener, load, picture, reds

from feddiv.core.errors import UserError
from feddiv.data import Dataset, statistics
from feddiv.data.sources import table_files

ROWS = [{"image": f"pics/{n}.png", "label": "cat" if n % 2 else "dog"} for n in range(20)]


def write(path: Path, rows: list[dict[str, object]], delimiter: str = ",") -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return path


def table(path: Path, listener: Listener | None = None, **options: object) -> Dataset:
    options.setdefault("size", None)
    return load(source="table", path=path, listener=listener, **options)


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    for number in range(20):
        picture(tmp_path / "pics" / f"{number}.png", (number, 0, 0))
    return tmp_path


def vectors(count: int = 20, **more: object) -> list[dict[str, object]]:
    return [{"label": n % 2, "x1": n, "x2": n / 2, **more} for n in range(count)]


def test_paths_are_relative_to_the_table(pictures: Path) -> None:
    data = table(write(pictures / "list.csv", ROWS), size=8)
    assert data.classes == ("cat", "dog")
    assert data.input_shape == (3, 8, 8)
    for split in (data.train, data.test):
        assert [red % 2 for red in reds(split.inputs)] == [1 - int(y) for y in split.labels]
    assert (len(data.train), len(data.test)) == (16, 4)


def test_clients_splits_and_true_labels(pictures: Path) -> None:
    rows = [
        row
        | {
            "client": f"site {n % 3}",
            "split": "test" if n >= 15 else "Train",
            "true_label": "" if n >= 15 else "cat",
        }
        for n, row in enumerate(ROWS)
    ]
    data = table(write(pictures / "list.csv", rows), size=8)
    assert reds(data.train.inputs) == list(range(15))
    assert reds(data.test.inputs) == list(range(15, 20))
    assert data.clients == ("site 0", "site 1", "site 2")
    assert data.holder is not None
    assert data.holder.tolist() == [n % 3 for n in range(15)]
    assert data.truth is not None
    assert data.truth.tolist() == [0] * 15
    assert data.test.labels.tolist() == [0, 1, 0, 1, 0]


def test_columns_by_other_names(pictures: Path) -> None:
    rows = [{"photo": row["image"], "class": row["label"], "label": "x"} for row in ROWS]
    data = table(
        write(pictures / "list.csv", rows, ";"),
        size=8,
        columns={"image": "photo", "label": "class"},
    )
    assert data.classes == ("cat", "dog")


def test_an_image_that_is_not_there_is_left_out(pictures: Path) -> None:
    (pictures / "pics" / "3.png").unlink()
    listener = Listener()
    data = table(write(pictures / "list.csv", ROWS), listener, size=8)
    assert len(data.train) + len(data.test) == 19
    assert " (pics/3.png: there is no such file)" in listener.said("cannot be read")


def test_images_that_are_listed_twice_are_said(pictures: Path) -> None:
    listener = Listener()
    rows = [row | {"split": "train" if n < 15 else "test"} for n, row in enumerate(ROWS)]
    table(write(pictures / "list.csv", rows), listener, size=8)
    assert not [note for note in listener.notes if "more than once" in note]
    rows[18]["image"] = "pics/../pics/2.png"  # a dog to train
    rows[4] |= {"image": "pics/3.png", "label": "dog"}  # a cat
    rows[6]["image"] = "pics/8.png"
    data = table(write(pictures / "list.csv", rows), listener, size=8)
    assert len(data.train) + len(data.test) == 20, "all of them stay"
    assert listener.said("more than once") == (
        "images that are listed more than once: 3 (pics/2.png, pics/3.png, pics/8.png), 1 of them "
        "both to train and to test, 1 under different labels"
    )


@pytest.mark.parametrize("images", [True, False])
def test_numbers_written_in_several_ways_are_said(pictures: Path, images: bool) -> None:
    ways = ["1", "1.0", "01", "2", "one", "0.5"]
    rows = ROWS * 3 if images else vectors(60)
    rows = [row | {"label": ways[n % 6]} for n, row in enumerate(rows)]
    listener = Listener()
    data = table(write(pictures / "list.csv", rows), listener, size=8 if images else None)
    assert len(data.classes) == 6
    assert "is written: 01 and 1 and 1.0; they" in listener.said("how a number is written")


def test_all_columns_of_numbers_are_features(tmp_path: Path) -> None:
    rows = [row | {"comment": "none"} for row in vectors()]
    data = table(write(tmp_path / "t.csv", rows))
    assert data.input_shape == (2,)
    assert data.classes == ("0", "1")
    assert data.train.inputs.dtype == torch.float32
    assert torch.equal(data.train.inputs[:, 0], data.train.inputs[:, 1] * 2)
    assert (data.train.inputs[:, 0] % 2 == data.train.labels).all()
    assert data.mean == pytest.approx(data.train.inputs.mean(dim=0).tolist())


@pytest.mark.parametrize(("features", "width"), [("x", 2), ("x1", 1), (["x2", "id"], 2), (None, 3)])
def test_features_by_name_or_beginning(tmp_path: Path, features: object, width: int) -> None:
    rows = [row | {"id": 7} for row in vectors()]
    data = table(write(tmp_path / "t.csv", rows), columns={"features": features})
    assert data.input_shape == (width,)


def test_a_table_may_have_both_and_features_are_asked_for(tmp_path: Path) -> None:
    rows = [row | {"path": "x.png"} for row in vectors()]
    data = table(write(tmp_path / "t.csv", rows), columns={"features": "x"})
    assert data.input_shape == (2,)


def test_true_labels_judge_what_is_held_out(tmp_path: Path) -> None:
    rows = [row | {"true_label": 1} for row in vectors()]
    data = table(write(tmp_path / "t.csv", rows), columns={"features": "x"})
    assert data.test.labels.tolist() == [1] * 4
    assert data.truth is not None
    assert data.truth.tolist() == [1] * 16


def test_validation_rows_are_left_out_where_there_is_a_test(tmp_path: Path) -> None:
    words = ["train"] * 10 + ["val"] * 4 + ["test"] * 6
    rows = [row | {"split": word} for row, word in zip(vectors(), words, strict=True)]
    data = table(write(tmp_path / "t.csv", rows))
    assert data.test.inputs[:, 0].tolist() == [14, 15, 16, 17, 18, 19]
    data = table(write(tmp_path / "t.csv", rows[:14]))
    assert data.test.inputs[:, 0].tolist() == [10, 11, 12, 13]
    data = table(write(tmp_path / "t.csv", rows[:10]))
    assert (len(data.train), len(data.test)) == (8, 2)


def test_excel_and_other_habits(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    lines = ["label;x 1", *[f'"{n % 2}" ; {n}.5' for n in range(10)], "", ";"]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8-sig")
    data = table(file)
    assert len(data.train) + len(data.test) == 10
    file.write_text("label\tx\n" + "".join(f"{'ab'[n % 2]}\t{n}\n" for n in range(10)))
    assert table(file).classes == ("a", "b")


def changed(row: int, **values: object) -> list[dict[str, object]]:
    """A good table of vectors, one row of which is not."""
    rows = [
        r | {"client": "c", "split": "train" if n < 15 else "test", "true_label": n % 2}
        for n, r in enumerate(vectors())
    ]
    rows[row] |= values
    return rows


@pytest.mark.parametrize(
    ("row", "values", "said"),
    [
        (3, {"label": ""}, "line 5: label is missing"),
        (3, {"x1": ""}, "line 5: x1 is missing"),
        (3, {"x2": "much"}, "line 5: x2 is 'much', not a number"),
        (3, {"x2": "nan"}, "line 5: x2 is missing or not finite"),
        (3, {"x2": "1e99"}, "line 5: x2 is missing or not finite in float32"),
        (3, {"split": "learn"}, "line 5: split 'learn' is unknown; allowed are train, training"),
        (3, {"split": ""}, "line 5: split '' is unknown"),
        (3, {"true_label": "9"}, r"line 5: true_label '9' is not one of the classes \(0, 1\)"),
        (3, {"true_label": ""}, "line 5: true_label is missing"),
        (3, {"client": " "}, "line 5: client is missing"),
    ],
)
def test_a_bad_value_is_named_with_its_line(
    tmp_path: Path, row: int, values: dict[str, object], said: str
) -> None:
    file = write(tmp_path / "t.csv", changed(row, **values))
    with pytest.raises(UserError, match=said) as caught:
        table(file)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("label,x\n", "has no rows"),
        ("label,x,x\n1,2,3\n", "column 'x' is there twice"),
        ("label,,x\n1,2,3\n", "column 2 has no name"),
        ("label,x\n1,2,3\n", "line 2: 3 values for 2 columns"),
        ("a,b\n1,2\n", r"has no column 'label'; set data\.columns\.label to one of a, b"),
        ("label,name\n1,Ann\n", "neither a column 'image' or 'text' nor columns of numbers"),
        ("label,x\n" + "1,2\n" * 5, "only one class, 1"),
        ("label,x\n0,2\n1,3\n", "2 samples are too few"),
        ("label,x,split\n0,2,test\n1,2,test\n", "no row has split train"),
        ("label,image\n0,a.png\n1,\n0,a.png\n0,a.png\n", "line 3: image is missing"),
    ],
)
def test_tables_that_are_none(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(UserError, match=said):
        table(tmp_path / "t.csv")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le"])
def test_a_table_in_utf_16_is_said_to_be_so(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "t.csv").write_text("label,x\n" + "a,1\nb,2\n" * 5, encoding=encoding)
    with pytest.raises(
        UserError, match=r"t\.csv: is not UTF-8 but UTF-16, .* save it as CSV in UTF"
    ):
        table(tmp_path / "t.csv")


def test_a_parquet_file_of_another_encoding_is_refused_in_one_line(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    ends = np.array([0, 1, 2], np.int32)
    buffers = [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(b"a\xff")]
    odd = pa.Array.from_buffers(pa.string(), 2, buffers)
    parquet.write_table(pa.table({"label": odd, "a": [0.0, 1.0]}), tmp_path / "t.parquet")
    with pytest.raises(UserError, match=r"t\.parquet row 1: label is not UTF-8 \(byte 0xff\)"):
        table_files.read_table(tmp_path / "t.parquet").texts(["label"])


@pytest.mark.parametrize("column", ["label", "client", "true_label"])
def test_a_name_in_another_encoding_is_named_with_file_and_line(
    tmp_path: Path, column: str
) -> None:
    text = write(tmp_path / "t.csv", changed(3, **{column: "äpfel"})).read_text(encoding="utf-8")
    (tmp_path / "t.csv").write_text(text, encoding="latin-1")
    with pytest.raises(
        UserError, match=rf"t\.csv line 5: {column} \\.*pfel is not UTF-8: the file"
    ):
        table(tmp_path / "t.csv")


def test_columns_that_cannot_be(tmp_path: Path) -> None:
    file = write(tmp_path / "t.csv", vectors())
    for columns, said in (
        ({"label": "y"}, r"has no column 'y' \(data\.columns\.label\), only label, x1, x2"),
        ({"client": "label"}, "column 'label' cannot be both"),
        ({"features": "z"}, r"no column is called, or begins with, 'z'"),
        ({"features": ["x1", "z"]}, r"has no column 'z' \(data\.columns\.features\)"),
        ({"features": []}, "name at least one"),
        ({"features": "x", "image": "x1"}, "give image or features, not both"),
    ):
        with pytest.raises(UserError, match=said):
            table(file, columns=columns)
    with pytest.raises(UserError, match=r"data\.size=8: .* holds no images but feature vectors"):
        table(file, size=8)
    for path, said in ((tmp_path, "is a folder"), (tmp_path / "gone.csv", "no such file")):
        with pytest.raises(UserError, match=said):
            table(path)
    with pytest.raises(UserError, match=r"data\.path has to name"):
        load(source="table", size=None)


def test_one_spelling_of_labels(tmp_path: Path) -> None:
    composed, apart = (unicodedata.normalize(form, "é") for form in ("NFC", "NFD"))
    rows = [r | {"label": apart if r["label"] else "b", "true_label": composed} for r in vectors()]
    assert table(write(tmp_path / "t.csv", rows)).classes == ("b", composed)


def test_parquet(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow", reason="no pyarrow, the extra parquet")
    parquet = pytest.importorskip("pyarrow.parquet")
    file = tmp_path / "t.parquet"
    numbers = np.arange(20)

    def written(**columns: object) -> Path:
        parquet.write_table(arrow.table({"label": numbers % 2, **columns}), file)
        return file

    lists = np.stack([numbers, numbers * 2], axis=1).astype(np.float64).tolist()
    data = table(written(embedding=lists))
    assert data.input_shape == (2,)
    assert torch.equal(data.train.inputs[:, 0] * 2, data.train.inputs[:, 1])
    assert (data.train.inputs[:, 0] % 2 == data.train.labels).all()
    fixed = arrow.FixedSizeListArray.from_arrays(arrow.array(np.arange(40.0)), 2)
    assert table(written(embedding=fixed)).input_shape == (2,)
    assert table(written(x=numbers, y=numbers / 2)).input_shape == (2,)

    with pytest.raises(UserError, match=r"more than one kind of features \(e, x\)"):
        table(written(e=lists, x=numbers))
    assert table(file, columns={"features": "e"}).input_shape == (2,)
    odd = [*lists[:4], [1.0], *lists[5:]]
    with pytest.raises(UserError, match="row 5: e has 1 numbers, the first row has 2"):
        table(written(e=odd))
    with pytest.raises(UserError, match="row 5: e is missing, the first row has 2"):
        table(written(e=[*lists[:4], None, *lists[5:]]))
    with pytest.raises(UserError, match="row 3: x is missing or not finite"):
        table(written(x=[1.0, 2.0, None, *[0.0] * 17]))
    with pytest.raises(UserError, match="column name holds string, not numbers"):
        table(written(name=["a"] * 20), columns={"features": "name"})
    with pytest.raises(UserError, match=r"row 1: label is float '0\.5'"):
        table(written(label=numbers + 0.5, x=numbers))
    file.write_bytes(b"PAR1 no more")
    with pytest.raises(UserError, match="cannot be read as Parquet"):
        table(file)


def test_parquet_without_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    with pytest.raises(UserError, match=r"needs the package pyarrow; pip install 'feddiv\[parquet"):
        table(tmp_path / "t.parquet")


def test_a_column_is_judged_by_its_first_value_and_said(tmp_path: Path) -> None:
    rows = [row | {"note": "", "who": "NA" if n else ""} for n, row in enumerate(vectors())]
    listener = Listener()
    table(write(tmp_path / "t.csv", rows), listener)
    said = listener.said("features are")
    assert "2 of t.csv's columns (x1, x2); left out: note, who" in said
    for gap in ("", "n/a"):
        rows[0]["x1"] = gap
        with pytest.raises(UserError, match=r"line 2: x1 is (missing|'n/a', not a number)"):
            table(write(tmp_path / "t.csv", rows))


def test_clients_in_two_spellings_are_refused(tmp_path: Path) -> None:
    forms = [unicodedata.normalize(form, "Zürich") for form in ("NFC", "NFD")]
    rows = [row | {"client": forms[n % 2]} for n, row in enumerate(vectors())]
    with pytest.raises(UserError, match="client 'Zürich' is there twice, in two Unicode spellings"):
        table(write(tmp_path / "t.csv", rows))
    rows = [row | {"client": ("--5", "7")[n % 2]} for n, row in enumerate(vectors())]
    assert table(write(tmp_path / "t.csv", rows)).clients == ("--5", "7")


def test_only_the_columns_that_are_needed_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrow = pytest.importorskip("pyarrow", reason="no pyarrow, the extra parquet")
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr(table_files, "BATCH", 3)
    numbers = np.arange(20)
    lists = [[float(n), 1.0] for n in numbers]
    content = {"label": numbers % 2, "x": numbers, "e": lists, "blob": ["x" * 99] * 20}
    parquet.write_table(arrow.table(content), tmp_path / "t.parquet")
    asked: list[str] = []
    plain = parquet.ParquetFile.iter_batches

    def counted(file: object, size: int, columns: list[str]) -> object:
        asked.extend(columns)
        return plain(file, size, columns=columns)

    monkeypatch.setattr(parquet.ParquetFile, "iter_batches", counted)
    for features in ("x", "e"):
        data = table(tmp_path / "t.parquet", columns={"features": features})
        assert sorted(data.train.inputs[:, 0].tolist() + data.test.inputs[:, 0].tolist()) == list(
            range(20)
        )
    assert sorted(set(asked)) == ["e", "label", "x"]


def test_statistics_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    features = np.random.default_rng(0).normal(5, 2, (25, 3)).astype(np.float32)
    monkeypatch.setattr(statistics, "_CHUNK", 4)
    mean, std = statistics.feature_statistics(features)
    assert mean == pytest.approx(features.mean(axis=0, dtype=np.float64))
    assert std == pytest.approx(features.std(axis=0, dtype=np.float64))

"""Texts as samples, before an encoder: folders, tables, Hugging Face data sets, data frames."""

import csv
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from feddiv.core.errors import UserError
from feddiv.core.randomness import Streams
from feddiv.data import DataOptions, Dataset, load_dataset
from feddiv.data.sources import SOURCES
from feddiv.data.texts.texts import BLANKS, LONGEST, NoText, Texts, usable


def source(name: str, path: Path, **options: Any) -> Dataset:
    loaded = SOURCES[name].load(DataOptions(source=name, path=path, **options))
    assert isinstance(loaded, Dataset)
    return loaded


def write(root: Path, texts: dict[str, str]) -> Path:
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


def notes(count: int = 10) -> dict[str, str]:
    return {f"{group}/{n}.txt": f"{group} {n}" for group in ("ham", "spam") for n in range(count)}


def table(path: Path, rows: list[dict[str, object]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


ROWS: list[dict[str, object]] = [
    {"label": ("ham", "spam")[n % 2], "text": f"text, number\n{n}"} for n in range(20)
]


def both(data: Dataset) -> tuple[Texts, Texts]:
    """The texts to train on and to test on."""
    assert data.originals is not None
    train, test = data.originals.train, data.originals.test
    assert isinstance(train, Texts)
    assert isinstance(test, Texts)
    return train, test


def told(data: Dataset) -> set[tuple[str, str]]:
    """Every text under its label."""
    return {
        (text, data.classes[label])
        for texts, split in zip(both(data), (data.train, data.test), strict=True)
        for text, label in zip(texts, split.labels.tolist(), strict=True)
    }


def test_texts_are_kept_as_bytes_and_chosen_without_a_copy() -> None:
    texts = Texts.of(["one", "zwölf", "三"], ["a.txt", "b.txt", "c.txt"])
    assert [len(texts), *texts] == [3, "one", "zwölf", "三"]
    some = texts.chosen(np.array([2, 1]))
    assert list(some) == ["三", "zwölf"]
    assert [some.name(0), some.name(1)] == ["c.txt", "b.txt"]
    assert some.store is texts.store
    assert some.content(1) == "zwölf".encode()
    assert some.read([1, 0]) == (["zwölf", "三"], {})
    assert len(Texts.of([])) == 0


def test_a_folder_of_texts_by_class(tmp_path: Path) -> None:
    data = source("folder", write(tmp_path, notes() | {"readme.md": "no sample"}))
    assert data.classes == ("ham", "spam")
    assert (len(data.train), len(data.test)) == (16, 4)
    assert told(data) == {(text, name.split("/")[0]) for name, text in notes().items()}
    train, _ = both(data)
    assert train.name(0) == "ham/0.txt"
    assert data.text(0) == "ham 0"
    assert data.only_texts
    assert "files that are no texts, left out: 1 (readme.md)" in data.notes
    fewer = data.chosen(torch.tensor([3, 0]))
    assert list(both(fewer)[0]) == [train[3], train[0]]


def test_clients_and_a_test_folder_of_texts(tmp_path: Path) -> None:
    write(
        tmp_path, {f"train/{site}/{name}": text for site in "ab" for name, text in notes(2).items()}
    )
    write(tmp_path, {f"test/{name}": f"new {text}" for name, text in notes(1).items()})
    data = source("folder", tmp_path, layout="client")
    assert data.clients == ("a", "b")
    assert list(both(data)[1]) == ["new ham 0", "new spam 0"]
    assert not data.split_here


def test_images_come_first(tmp_path: Path) -> None:
    """A remark beside pictures makes no folder of texts."""
    write(tmp_path, notes(2))
    (tmp_path / "ham" / "picture.png").write_bytes(b"no picture, but called one")
    (tmp_path / "spam" / "picture.png").write_bytes(b"no picture, but called one")
    data = SOURCES["folder"].load(DataOptions(source="folder", path=tmp_path, test_share=0))
    assert data.notes == (
        "files that are no images, left out: 4 (ham/0.txt, ham/1.txt, spam/0.txt, …)",
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the text is empty"),
        (b" \n\t ", "the text is empty"),
        (b"caf\xe9 au lait", r"it is not UTF-8 \(byte 0xe9 at 3\); save it in UTF-8"),
        ("text".encode("utf-16-le"), "it has a zero byte in it: it is UTF-16"),
        (b"x" * (LONGEST + 1), r"cannot be read \(has more than 16,777,216 bytes"),
    ],
)
def test_a_file_that_is_no_text_is_named(tmp_path: Path, content: bytes, said: str) -> None:
    write(tmp_path, notes())
    (tmp_path / "spam" / "3.txt").write_bytes(content)
    with pytest.raises(UserError, match=f"spam/3.txt: {said}"):
        source("folder", tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [("\0 \0", "the text is empty"), (" \0\u3000\n\0", "is empty"), ("a \ud800", "lone surrogate")],
)
def test_what_is_no_text(text: str, said: str) -> None:
    with pytest.raises(NoText, match=said):
        usable(text)


def test_blanks_around_a_text_are_no_part_of_it() -> None:
    assert usable("\0 \u2003\0a b\n\0 ") == "a b"
    assert {chr(code) for code in range(sys.maxunicode + 1) if chr(code).isspace()} < set(BLANKS)


def test_a_mark_of_utf8_is_no_part_of_the_text(tmp_path: Path) -> None:
    write(tmp_path, notes())
    (tmp_path / "ham" / "0.txt").write_bytes("\ufeffGrüße".encode())
    assert ("Grüße", "ham") in told(source("folder", tmp_path))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    write(tmp_path, notes())
    os.mkfifo(tmp_path / "ham" / "pipe.txt")
    assert "left out: 1 (ham/pipe.txt)" in " ".join(source("folder", tmp_path).notes)


def test_a_text_column_of_a_table(tmp_path: Path) -> None:
    rows = [row | {"client": f"site {n % 2}"} for n, row in enumerate(ROWS)]
    data = source("table", table(tmp_path / "t.csv", rows), test_share=0)
    assert told(data) == {(row["text"], row["label"]) for row in ROWS}
    assert data.clients == ("site 0", "site 1")
    assert data.columns == ("text",)


def test_parquet_has_texts_too(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow", reason="no pyarrow, the extra parquet")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.Table.from_pylist(ROWS), tmp_path / "t.parquet")
    assert told(source("table", tmp_path / "t.parquet")) == {
        (row["text"], row["label"]) for row in ROWS
    }


def test_another_column_may_be_named(tmp_path: Path) -> None:
    rows = [{"label": row["label"], "text": "a remark", "body": row["text"]} for row in ROWS]
    data = source("table", table(tmp_path / "t.csv", rows), columns={"text": "body"})
    assert {text for text, _ in told(data)} == {row["text"] for row in ROWS}


def test_a_text_beside_numbers_needs_an_encoder_to_count(tmp_path: Path) -> None:
    rows = [row | {"x1": n, "x2": -n} for n, row in enumerate(ROWS)]
    file = table(tmp_path / "t.csv", rows)
    numbers = source("table", file)
    assert numbers.columns == ("x1", "x2")
    assert "left out: text" in numbers.notes[0]
    assert source("table", file, encoder="wordllama").columns == ("text",)
    assert source("table", file, encoder="wordllama", columns={"features": "x1"}).columns == ("x1",)


def test_labels_may_be_called_text(tmp_path: Path) -> None:
    rows = [{"text": n % 2, "x": n} for n in range(20)]
    data = source("table", table(tmp_path / "t.csv", rows), columns={"label": "text"})
    assert (data.classes, data.columns) == (("0", "1"), ("x",))


def test_what_is_wrong_with_a_table_of_texts(tmp_path: Path) -> None:
    empty = [row | ({"text": " "} if n == 3 else {}) for n, row in enumerate(ROWS)]
    with pytest.raises(UserError, match=r"t.csv line 8: text: the text is empty"):
        source("table", table(tmp_path / "t.csv", empty))
    latin = table(tmp_path / "t.csv", [row | {"text": "café"} for row in ROWS])
    latin.write_bytes(latin.read_text(encoding="utf-8").encode("latin1"))
    with pytest.raises(UserError, match=r"t.csv line 2: text .*is not UTF-8: the file has another"):
        source("table", latin)
    both = [row | {"path": "a.png"} for row in ROWS]
    file = table(tmp_path / "t.csv", both)
    with pytest.raises(UserError, match=r"a column of images \(path\) and one of texts \(text\)"):
        source("table", file, encoder="wordllama")
    with pytest.raises(UserError, match="give image or text, not both"):
        source("table", file, columns={"image": "path", "text": "text"})
    with pytest.raises(UserError, match=r"has no column 'body' \(data.columns.text\)"):
        source("table", file, columns={"text": "body"})
    with pytest.raises(UserError, match=r"data.size=8: t.csv holds no images but texts"):
        source("table", table(tmp_path / "t.csv", ROWS), size=8)


def test_a_hugging_face_data_set_of_texts(tmp_path: Path) -> None:
    hub = pytest.importorskip("datasets", reason="no datasets, the extra vision")
    whole = hub.Dataset.from_list(ROWS)
    hub.DatasetDict(train=whole.select(range(15)), test=whole.select(range(15, 20))).save_to_disk(
        str(tmp_path / "saved")
    )
    data = source("huggingface", tmp_path / "saved")
    assert told(data) == {(str(row["text"]), row["label"]) for row in ROWS}
    assert (len(data.train), len(data.test)) == (15, 5)
    with pytest.raises(UserError, match=r"data.columns.text=body: not a column of"):
        source("huggingface", tmp_path / "saved", columns={"text": "body"})
    broken = hub.Dataset.from_list([*ROWS, {"label": "ham", "text": ""}])
    broken.save_to_disk(str(tmp_path / "broken"))
    with pytest.raises(UserError, match="train row 20: text: the text is empty"):
        source("huggingface", tmp_path / "broken")


def test_without_an_encoder_texts_are_refused(tmp_path: Path) -> None:
    options = DataOptions(source="folder", path=write(tmp_path, notes()))
    with pytest.raises(UserError, match=r"data.source=folder: .* texts.* data.encoder=wordllama"):
        load_dataset(options, Streams(0))

"""From texts to feature vectors, through the cache; encoders of the wrong kind."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.data.pictures import Listener, class_folders
from tests.encoders.colours import onnx_file
from tests.encoders.words import graph, tokenizer

from feddiv.core import processes
from feddiv.core.errors import UserError
from feddiv.core.randomness import Streams
from feddiv.data import DataOptions, Dataset, load_dataset
from feddiv.data.texts.texts import Texts
from feddiv.encoders.onnx_text import OnnxTextEncoder


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDDIV_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(processes, "usable_cores", lambda: 1)


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """Class low: one; class high: three, two of them with another word."""
    for label, word in {"low": "one", "high": "three"}.items():
        (tmp_path / "texts" / label).mkdir(parents=True)
        for number in range(5):
            more = " two" if number < 2 and label == "high" else ""
            (tmp_path / "texts" / label / f"{number}.txt").write_text(word + more)
    return tmp_path / "texts"


@pytest.fixture
def words(tmp_path: Path) -> Path:
    (tmp_path / "words").mkdir()
    tokenizer(tmp_path / "words")
    return graph(tmp_path / "words" / "net.onnx")


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that the encoder was asked for."""
    asked: list[str] = []
    vector = OnnxTextEncoder.vector

    def noted(self: OnnxTextEncoder, text: str) -> Any:
        asked.append(text)
        return vector(self, text)

    monkeypatch.setattr(OnnxTextEncoder, "vector", noted)
    return asked


def load(path: Path, encoder: object, source: str = "folder", **options: Any) -> Dataset:
    chosen = DataOptions(source=source, path=path, encoder=str(encoder), **options)
    return load_dataset(chosen, Streams(0), Listener())


def test_texts_become_vectors_once(texts: Path, words: Path, seen: list[str]) -> None:
    data = load(texts, words)
    assert data.input_shape == (2,)
    assert (len(data.train), len(data.test)) == (8, 2)
    numbers = {"one": 2.0, "three": 4.0, "three two": 3.5}
    for row in range(8):
        text = data.text(row)
        assert text is not None
        found = data.train.rows(slice(row, row + 1))[0]
        assert found.tolist() == [numbers[text], 10 * numbers[text]]
    assert data.originals is not None
    assert data.originals.test.shown(0) in ("three", "three two")
    vectors = np.array([[numbers[str(data.text(row))]] * 2 for row in range(8)]) * [1, 10]
    assert data.mean == pytest.approx(vectors.mean(0))
    assert data.std == pytest.approx(vectors.std(0))
    # The same words in other files are the same text; "a" tells how wide vectors are.
    assert sorted(set(seen)) == ["a", "one", "three", "three two"]
    assert len(seen) == 4
    load(texts, words)
    assert seen[4:] == ["a"]
    (texts / "low" / "0.txt").write_text("two")
    load(texts, words)
    assert sorted(set(seen[5:])) == ["a", "two"]


def test_a_part_of_the_texts(texts: Path, words: Path) -> None:
    data = load(texts, words, images=3)
    assert len(data.train) == 3
    everything = load(texts, words)
    assert [data.text(row) for row in range(3)] == [
        everything.text(int(row)) for row in data.origin
    ]


def test_a_table_of_texts(tmp_path: Path, words: Path) -> None:
    lines = [f"{('low', 'high')[n % 2]},{('one', 'three')[n % 2]} two,{n}" for n in range(10)]
    (tmp_path / "t.csv").write_text("\n".join(["label,text,age", *lines]))
    data = load(tmp_path / "t.csv", words, source="table")
    assert data.input_shape == (2,)
    assert data.columns == ("text",)


def test_encoders_of_the_wrong_kind(texts: Path, words: Path, tmp_path: Path) -> None:
    pictures = class_folders(tmp_path / "pictures")
    net = onnx_file(tmp_path / "colours.onnx")
    normalised = {"encoder_mean": 0.0, "encoder_std": 1.0}
    for path, encoder, said in (
        (texts, "effnet_lite0", "encodes images; the samples of data.source=folder are texts"),
        (pictures, "wordllama", "encodes texts; the samples of data.source=folder are images"),
        (pictures, words, "encodes texts; the samples of data.source=folder are images"),
        (texts, net, "takes images and does not say"),
    ):
        with pytest.raises(UserError, match=said):
            load(path, encoder)
    with pytest.raises(UserError, match=r"data\.encoder_mean=.* is for encoders of images"):
        load(texts, net, **normalised)
    with pytest.raises(UserError, match=r"data\.encoder_views=2: a text has one view only"):
        load(texts, words, encoder_views=2)
    (tmp_path / "t.csv").write_text("label,x\n" + "0,1\n1,2\n" * 9)
    with pytest.raises(UserError, match="are numbers already"):
        load(tmp_path / "t.csv", "wordllama", source="table")


def test_an_empty_text_is_named_before_anything_is_encoded(
    texts: Path, words: Path, seen: list[str]
) -> None:
    (texts / "low" / "3.txt").write_text("\n")
    with pytest.raises(UserError, match=r"low/3\.txt: the text is empty"):
        load(texts, words)
    assert not seen


def test_a_text_of_a_table_that_has_no_features_is_named_by_how_it_begins() -> None:
    long = "one two three " * 10
    texts = Texts.of(["zero", long])
    assert texts.name(1) == "the text that begins with 'one two three one two three one two thre'"

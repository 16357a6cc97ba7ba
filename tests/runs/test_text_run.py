"""Runs on texts: train, use, go on."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.encoders.words import graph, tokenizer

import feddiv
from feddiv.cli import main
from feddiv.core.errors import UserError

pytestmark = pytest.mark.slow


@pytest.fixture
def words(tmp_path: Path) -> Path:
    (tmp_path / "words").mkdir()
    tokenizer(tmp_path / "words")
    return graph(tmp_path / "words" / "net.onnx")


@pytest.fixture
def run(tmp_path: Path, words: Path, monkeypatch: pytest.MonkeyPatch) -> feddiv.Run:
    monkeypatch.setenv("FEDDIV_CACHE", str(tmp_path / "cache"))
    texts = {"low": "one one", "high": "three two"}
    lines = [f"{('low', 'high')[n % 2]},{list(texts.values())[n % 2]}" for n in range(60)]
    (tmp_path / "notes.csv").write_text("\n".join(["label,note", *lines]))
    settings: dict[str, Any] = {
        "data.source": "table",
        "data.path": str(tmp_path / "notes.csv"),
        "data.columns.text": "note",
        "data.encoder": str(words),
        "model.name": "mlp",
        "rounds": 3,
        "warmup.iterations": 1,
        "against": [],
        "train.lr": 0.1,
    }
    return feddiv.run("own", settings, out=tmp_path / "run", workers=0)


def predict(run: feddiv.Run, data: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["predict", str(run.folder), "--data", str(data)])
    assert ended.value.code == 0


def test_a_model_of_texts_predicts_texts(
    run: feddiv.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run.summary["last_test_accuracy"] == 1.0
    model = feddiv.load(run.folder)
    assert model.predict_labels(["one", "three", "two three"]) == ["low", "high", "high"]
    assert model.predict_labels("one one") == ["low"]
    assert model.predict_proba([]).shape == (0, 2)
    vectors = np.array([[2.0, 20.0], [4.0, 40.0]])
    assert model.predict_labels(vectors) == ["low", "high"]
    folder = tmp_path / "new"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.txt").write_text("three")
    (folder / "deep" / "b.txt").write_text("one")
    (folder / "c.txt").write_bytes(b"\xff")
    (folder / "no.md").write_text("three")
    assert model.predict_labels(folder / "a.txt") == ["high"]
    predict(run, folder)
    said = capsys.readouterr()
    rows = list(csv.DictReader(said.out.splitlines()))
    assert [(row["sample"], row["predicted_label"]) for row in rows] == [
        ("a.txt", "high"),
        (str(Path("deep", "b.txt")), "low"),
    ]
    assert "c.txt: it is not UTF-8 (byte 0xff at 0); save it in UTF-8, left out" in said.err


def test_tables_and_frames_by_the_column_of_the_training(
    run: feddiv.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "new.csv").write_text("text,note\nthree,one\none,three\n")
    predict(run, tmp_path / "new.csv")
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert [row["predicted_label"] for row in rows] == ["low", "high"]
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"note": ["one", "three"]})
    assert feddiv.load(run.folder).predict_labels(frame) == ["low", "high"]


def test_what_is_refused(run: feddiv.Run, tmp_path: Path, words: Path) -> None:
    model = feddiv.load(run.folder)
    with pytest.raises(UserError, match="sample 1: the text is empty"):
        model.predict(["one", " "])
    with pytest.raises(UserError, match="sample 1: it has half a character in it"):
        model.predict(["one", "\ud800"])
    with pytest.raises(UserError, match="sample 1 is a int; give a text"):
        model.predict(["one", 1])
    with pytest.raises(UserError, match=r"this model takes \(2,\) of float32"):
        model.predict(np.zeros((1, 3)))
    (words.parent / "tokenizer.json").unlink()
    with pytest.raises(UserError, match=r"there is no tokenizer\.json beside it"):
        feddiv.load(run.folder)
    tokenizer(words.parent, longest=3)
    with pytest.raises(UserError, match="its weights are others than those"):
        feddiv.load(run.folder)


def test_it_goes_on_for_more_rounds(run: feddiv.Run) -> None:
    assert feddiv.resume(run.folder, {"rounds": 4}, workers=0).summary["rounds"] == 4

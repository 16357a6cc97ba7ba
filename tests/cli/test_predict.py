import csv
import io

import numpy as np
import pytest
from PIL import Image

import feddiv


@pytest.fixture
def images():
    return np.random.default_rng(3).integers(0, 256, (5, 8, 8), dtype=np.uint8)


def _table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_arrays(command, finished, images, tmp_path):
    np.savez(tmp_path / "x.npz", x=images)
    np.save(tmp_path / "x.npy", images)
    model = feddiv.load(finished.folder)
    chances = model.predict_proba(images)
    outcome = command("predict", finished.folder, "--data", "x.npz")
    assert outcome.code == 0
    rows = _table(outcome.out)
    assert [row["sample"] for row in rows] == ["0", "1", "2", "3", "4"]
    assert [row["predicted_label"] for row in rows] == [
        model.classes[number] for number in model.predict(images)
    ]
    assert [float(row["confidence"]) for row in rows] == pytest.approx(
        chances.max(axis=1).tolist(), abs=1e-6
    )
    assert command("predict", finished.folder, "--data", "x.npy").out == outcome.out


def test_a_folder_of_images_in_order_and_without_the_broken_one(
    command, finished, images, tmp_path
):
    (tmp_path / "photos" / "b").mkdir(parents=True)
    Image.fromarray(images[1]).save(tmp_path / "photos" / "b" / "second.png")
    Image.fromarray(images[0]).save(tmp_path / "photos" / "a.png")
    (tmp_path / "photos" / "broken.png").write_bytes(b"\x89PNG nothing more")
    (tmp_path / "photos" / "notes.txt").write_text("not an image")
    outcome = command("predict", finished.folder, "--data", "photos", "--out", "said.csv")
    assert outcome.code == 0
    assert outcome.out == ""
    assert outcome.err.count("\n") == 1
    assert "broken.png" in outcome.err
    rows = _table((tmp_path / "said.csv").read_text())
    assert [row["sample"] for row in rows] == ["a.png", "b/second.png"]
    chances = feddiv.load(finished.folder).predict_proba(images[:2]).max(axis=1)
    assert [float(row["confidence"]) for row in rows] == pytest.approx(chances.tolist(), abs=1e-6)


def test_an_image_of_other_size_and_colours(command, finished, tmp_path):
    Image.new("RGBA", (40, 30), (200, 10, 10, 255)).save(tmp_path / "big.png")
    Image.new("I;16", (8, 8), 40000).save(tmp_path / "deep.png")
    for name in ("big.png", "deep.png"):
        outcome = command("predict", finished.folder, "--data", name)
        assert outcome.code == 0
        assert [row["sample"] for row in _table(outcome.out)] == [name]


def test_sixteen_bit_grey_is_scaled_and_not_clipped(tmp_path):
    from feddiv.runs.predict_inputs import read_inputs

    pixels = np.full((8, 8), 0x4000, np.uint16)
    Image.fromarray(pixels).save(tmp_path / "deep.png")
    (chunk,) = read_inputs(tmp_path / "deep.png", (1, 8, 8), print)
    assert (chunk.inputs == 0x40).all()


@pytest.mark.parametrize(
    ("name", "array", "said"),
    [
        ("empty.npz", np.zeros((0, 8, 8), np.uint8), "no samples"),
        ("size.npz", np.zeros((2, 9, 9), np.uint8), "this model takes (8, 8, 1) of uint8"),
        ("kind.npz", np.zeros((2, 8, 8)), "this model takes (8, 8, 1) of uint8"),
    ],
)
def test_arrays_that_do_not_fit(command, finished, tmp_path, name, array, said):
    np.savez(tmp_path / name, x=array)
    outcome = command("predict", finished.folder, "--data", name, "--out", "said.csv")
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert said in outcome.err
    assert not (tmp_path / "said.csv").exists()


def test_paths_that_hold_nothing_to_predict(command, finished, images, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.png").write_text("no image")
    (tmp_path / "bad.npy").write_text("no array")
    np.savez(tmp_path / "other.npz", images=images)
    for name, said in {
        "gone.npz": "no such file",
        "empty": "no image",
        "bad.npy": "cannot be read",
        "other.npz": "array 'x' is missing",
    }.items():
        outcome = command("predict", finished.folder, "--data", name)
        assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
        assert said in outcome.err
    outcome = command("predict", finished.folder, "--data", "text.png")
    assert (outcome.code, outcome.out) == (2, "")


def test_an_out_file_that_cannot_be_written(command, finished, images, tmp_path):
    np.savez(tmp_path / "x.npz", x=images)
    outcome = command("predict", finished.folder, "--data", "x.npz", "--out", "gone/said.csv")
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)

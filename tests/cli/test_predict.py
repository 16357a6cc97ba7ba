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


def test_sixteen_bit_grey_is_scaled_and_not_clipped(finished, tmp_path):
    from feddiv.runs.predict_inputs import read_inputs

    pixels = np.full((8, 8), 0x4000, np.uint16)
    Image.fromarray(pixels).save(tmp_path / "deep.png")
    (chunk,) = read_inputs([tmp_path / "deep.png"], feddiv.load(finished.folder).card, print)
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


def test_several_images_by_option_by_name_and_a_folder(command, finished, images, tmp_path):
    (tmp_path / "more").mkdir()
    for place, name in enumerate(("a.png", "b.png", "more/c.png")):
        Image.fromarray(images[place]).save(tmp_path / name)
    (tmp_path / "broken.png").write_text("no image")
    expected = feddiv.load(finished.folder).predict_labels(images[:3])
    for arguments in (
        ["--data", "a.png", "--data", "b.png", "--data", "more"],
        ["a.png", "b.png", "more"],
        ["--data", "a.png", "b.png", "more"],  # as a shell expands *.png
    ):
        rows = _table(command("predict", finished.folder, *arguments).out)
        assert [row["sample"] for row in rows] == ["a.png", "b.png", "more/c.png"]
        assert [row["predicted_label"] for row in rows] == expected
    outcome = command("predict", finished.folder, "a.png", "broken.png")
    assert [row["sample"] for row in _table(outcome.out)] == ["a.png"]
    assert "broken.png: cannot be read, left out" in outcome.err
    np.savez(tmp_path / "x.npz", x=images[:2])
    rows = _table(command("predict", finished.folder, "x.npz", "a.png").out)
    assert [row["sample"] for row in rows] == ["x.npz:0", "x.npz:1", "a.png"]


def test_of_several_paths_one_that_is_not_there_is_refused_before_anything(
    refused, finished, images, tmp_path
):
    Image.fromarray(images[0]).save(tmp_path / "a.png")
    assert "gone.png: there is no such file" in refused(
        "predict", finished.folder, "a.png", "gone.png"
    )
    assert "--data is missing" in refused("predict", finished.folder)


@pytest.fixture(scope="session")
def measured(tmp_path_factory):
    """A run on a table: three classes told by `e1`, `e2` and `e3`, an id that is left out."""
    folder = tmp_path_factory.mktemp("measured")
    rng = np.random.default_rng(0)
    lines = ["id,label,e2,e1,e3"]
    for number in range(90):
        x = np.eye(3)[number % 3] + rng.normal(0, 0.1, 3)
        lines.append(f"{number},{'abc'[number % 3]},{x[1]:.3f},{x[0]:.3f},{x[2]:.3f}")
    (folder / "train.csv").write_text("\n".join(lines) + "\n")
    settings = {
        "data.source": "table",
        "data.path": str(folder / "train.csv"),
        "data.columns.features": ["e1", "e2", "e3"],
        "model.name": "mlp",
        "method.name": "fedavg",
        "rounds": 8,
        "train.lr": 0.1,
        "warmup.iterations": 0,
        "against": [],
    }
    return feddiv.run("own", settings, out=folder / "run", workers=0)


TELLING = {"a": (1, 0, 0), "b": (0, 1, 0), "c": (0, 0, 1)}  # e1, e2, e3


def test_a_table_of_the_kind_it_was_trained_on(command, measured, tmp_path):
    """Columns count by their names, wherever they stand and whatever is beside them."""
    rows = [f"{e3},patient {name},{e1},7,{e2}" for name, (e1, e2, e3) in TELLING.items()]
    text = "\n".join(["e3,who,e1,id,e2", *rows]) + "\n"
    (tmp_path / "new.csv").write_text(text)
    said = _table(command("predict", measured.folder, "--data", "new.csv").out)
    assert [row["sample"] for row in said] == ["0", "1", "2"]
    assert [row["predicted_label"] for row in said] == ["a", "b", "c"]
    (tmp_path / "new.tsv").write_text(text.replace(",", "\t"))
    assert _table(command("predict", measured.folder, "new.tsv").out) == said
    arrow = pytest.importorskip("pyarrow", reason="no pyarrow, the extra parquet")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = dict(zip(("e1", "e2", "e3"), zip(*TELLING.values(), strict=True), strict=True))
    parquet.write_table(arrow.table(columns), tmp_path / "new.parquet")
    assert _table(command("predict", measured.folder, "new.parquet").out) == said


def test_tables_that_do_not_fit_are_named(refused, measured, tmp_path):
    (tmp_path / "few.csv").write_text("e1,e2\n1,0\n")
    said = refused("predict", measured.folder, "--data", "few.csv")
    assert (
        "--data few.csv: has no column 'e3', which the model was trained on; there are e1" in said
    )
    (tmp_path / "gap.csv").write_text("e1,e2,e3\n1,0,0\n1,,0\n")
    said = refused("predict", measured.folder, "--data", "gap.csv")
    assert "--data gap.csv line 3: e2 is missing" in said
    (tmp_path / "a.png").write_text("")
    assert "not images; give a table" in refused("predict", measured.folder, "a.png")


def test_a_model_that_does_not_know_its_columns_takes_all_numbers(
    command, refused, measured, tmp_path
):
    """As those of earlier versions, or trained on arrays."""
    from dataclasses import replace

    from feddiv.runs.model import save_weights

    model = feddiv.load(measured.folder)
    states = {name: net.state_dict() for name, net in model.nets.items()}
    save_weights(tmp_path / "old.safetensors", states, replace(model.card, columns=()))
    rows = [f"{name},{','.join(map(str, x))},north" for name, x in TELLING.items()]
    (tmp_path / "new.csv").write_text("\n".join(["label,x,y,z,client", *rows]) + "\n")
    said = _table(command("predict", "old.safetensors", "--data", "new.csv").out)
    assert [row["predicted_label"] for row in said] == ["a", "b", "c"]
    (tmp_path / "wide.csv").write_text("id,x,y,z\n1,1,0,0\n")
    said = refused("predict", "old.safetensors", "--data", "wide.csv")
    assert "4 columns hold numbers (id, x, y, z), and the model takes 3" in said


def test_a_table_of_paths_of_images(command, refused, finished, images, tmp_path):
    (tmp_path / "scans").mkdir()
    for place in range(2):
        Image.fromarray(images[place]).save(tmp_path / "scans" / f"{place}.png")
    (tmp_path / "list.csv").write_text("path,who\n1.png,x\n0.png,y\ngone.png,z\n")
    (tmp_path / "list.csv").rename(tmp_path / "scans" / "list.csv")
    outcome = command("predict", finished.folder, "scans/list.csv")
    rows = _table(outcome.out)
    assert [row["sample"] for row in rows] == ["1.png", "0.png"], "paths start from the table"
    assert "gone.png: cannot be read, left out" in outcome.err
    expected = feddiv.load(finished.folder).predict_labels(images[[1, 0]])
    assert [row["predicted_label"] for row in rows] == expected
    (tmp_path / "numbers.csv").write_text("a,b\n1,2\n")
    assert "has no column of paths of images (image, path" in refused(
        "predict", finished.folder, "numbers.csv"
    )

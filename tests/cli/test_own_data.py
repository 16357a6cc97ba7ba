"""From a folder of images to predictions, by the commands a newcomer types."""

import json

import numpy as np
import pytest
from PIL import Image
from tests.data.pictures import picture
from tests.data.test_clothing1m_source import official

import feddiv

COLOURS = {"Äpfel": (210, 40, 30), "banana": (220, 200, 60), "kiwi": (90, 150, 40)}
SHORT = ["rounds=2", "warmup.iterations=1", "train.epochs=1", "data.size=16", "train.batch=4"]


@pytest.fixture
def fruit(tmp_path):
    """Twenty noisy images of each fruit, and things that lie about in folders."""
    rng = np.random.default_rng(0)
    for name, colour in COLOURS.items():
        (tmp_path / "fruit" / name).mkdir(parents=True)
        for number in range(20):
            pixels = np.clip(rng.normal(colour, 20, (18, 24, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "fruit" / name / f"{number}.png")
    (tmp_path / "fruit" / "kiwi" / "broken.png").write_text("no image")
    (tmp_path / "fruit" / "kiwi" / "notes.txt").write_text("no image")
    return tmp_path / "fruit"


def test_from_a_folder_to_predictions(command, fruit, tmp_path):
    outcome = command("run", "data.source=folder", "data.path=fruit", *SHORT, "--out", "first")
    assert outcome.code == 0, outcome.err
    assert "61 images are resized to 16x16 pixels, once" in outcome.err
    assert "images that cannot be read, left out: 1 of " in outcome.err
    assert "(kiwi/broken.png" in outcome.err
    assert "no images, left out: 1 (kiwi/notes.txt)" in outcome.err
    summary = json.loads((tmp_path / "first" / "summary.json").read_text())
    assert summary["classes"] == ["banana", "kiwi", "Äpfel"]
    assert len(summary["per_class_accuracy"]) == 3
    assert "wrong" not in summary, "noise was put on somebody's own labels"

    picture(tmp_path / "new" / "fruit.png", COLOURS["banana"], (50, 30))
    said = command("predict", "first", "--data", "new").out.splitlines()
    assert said[0] == "sample,predicted_label,confidence"
    assert said[1].split(",")[1] in COLOURS

    # A stopped run finds the images again, also from another folder.
    again = command("resume", "first")
    assert again.code == 0
    assert "resized" not in again.err


@pytest.mark.slow
def test_workers_give_the_same_bits_on_mapped_images(command, fruit, tmp_path):
    hashes = []
    for workers in (0, 2):
        out = f"out{workers}"
        outcome = command(
            "run", "data.source=folder", "data.path=fruit", *SHORT, "against=[]",
            "--out", out, "--workers", workers,
        )  # fmt: skip
        assert outcome.code == 0, outcome.err
        hashes.append(json.loads((tmp_path / out / "summary.json").read_text())["model_hash"])
    assert hashes[0] == hashes[1]


@pytest.mark.slow
def test_embeddings_in_a_table(command, tmp_path):
    rng = np.random.default_rng(0)
    lines = ["label,hospital,e0,e1,e2"]
    for number in range(60):
        row = rng.normal(0, 0.2, 3) + np.eye(3)[number % 3]
        lines.append(f"{'abc'[number % 3]},{number % 2}," + ",".join(f"{x:.4f}" for x in row))
    (tmp_path / "e.csv").write_text("\n".join(lines) + "\n")
    outcome = command(
        "run", "data.source=table", "data.path=e.csv", 'data.columns.features="e"',
        'data.columns.client="hospital"', "model.name=mlp", *SHORT[:3], "--out", "e",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    summary = json.loads((tmp_path / "e" / "summary.json").read_text())
    assert summary["best_test_accuracy"] > 0.8
    assert feddiv.load(tmp_path / "e").classes == ("a", "b", "c")


def test_bad_folders_are_refused_in_one_line(refused, tmp_path):
    assert "there is no such folder" in refused("run", "data.source=folder", "data.path=gone")
    (tmp_path / "empty").mkdir()
    assert "holds no images" in refused("run", "data.source=folder", "data.path=empty")
    assert "data.path has to name" in refused("run", "data.source=clothing1m")
    line = refused("run", "data.source=folder", "data.layout=flat", "data.path=empty")
    assert "data.layout='flat'" in line


@pytest.mark.full
def test_a_resnet50_on_clothing1m(command, tmp_path):
    official(tmp_path / "clothing1m", train=200, test=28)
    outcome = command(
        "run", "data.source=clothing1m", "data.path=clothing1m", "data.size=64",
        "model.name=resnet50", "method.name=fedavg", "against=[]", "noise.name=none", "rounds=1",
        "warmup.iterations=0", "train.epochs=1", "train.batch=16", "train.lr=0.001",
        "clients.count=5", "clients.fraction=1.0", "--out", "shirts", "--quiet",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    summary = json.loads((tmp_path / "shirts" / "summary.json").read_text())
    assert summary["dataset"] == "clothing1m"
    assert len(summary["per_class_accuracy"]) == 14
    assert feddiv.load(tmp_path / "shirts").card.input_shape == (3, 64, 64)


def test_accuracy_on_doubtful_labels_is_called_so(command, fruit):
    outcome = command("run", "data.source=folder", "data.path=fruit", *SHORT, "--out", "first")
    assert "test samples are some of the data (12), whose labels may be as wrong" in outcome.err
    assert "round 2 of 2  given labels " in outcome.err
    assert " believed " in outcome.err
    heading = next(line for line in outcome.out.splitlines() if "last ten" in line)
    assert "last ten best last believed filter F1" in " ".join(heading.split())
    assert "whose labels may be wrong" in outcome.out
    assert "Test accuracy" not in outcome.out

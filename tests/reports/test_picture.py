from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.reports.folders import Shape, made_run

from feddiv.reports.figures import FIGURES, save_figures
from feddiv.reports.picture import draw_picture, save_picture
from feddiv.reports.record import RunRecord, read_runs


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[RunRecord]:
    """A run and its rival."""
    folder = made_run(tmp_path_factory.mktemp("runs") / "a", Shape(rounds=4))
    made_run(folder / "against" / "fedavg", Shape(rounds=4), "method.name=fedavg", opinion=False)
    return read_runs([folder])


def test_accuracy_of_all_runs_and_the_scores(records):
    accuracy, scores = draw_picture(records).axes
    lines = {line.get_label().split(",")[0]: line for line in accuracy.get_lines()}
    assert list(lines) == ["fedavg", "feddiv"]
    rounds = [[1, 0.3], [2, 0.6], [3, 0.7], [4, 0.75]]
    assert lines["feddiv"].get_xydata() == pytest.approx(np.array(rounds))
    assert lines["feddiv"].get_linewidth() > lines["fedavg"].get_linewidth()
    _, names = scores.get_legend_handles_labels()
    assert [name.split(" (")[0] for name in names] == [
        "filter: clean",
        "filter: noisy",
        "right labels",
        "wrong labels",
    ]


def test_without_true_labels_there_is_one_colour(tmp_path: Path):
    folder = made_run(tmp_path / "a", Shape(rounds=2, truth=False))
    _, names = draw_picture(read_runs([folder])).axes[1].get_legend_handles_labels()
    assert "given labels" in names
    assert not [name for name in names if "wrong" in name]


def test_without_scores_there_is_one_panel(records):
    assert len(draw_picture(records[1:]).axes) == 1


def test_a_single_round(records):
    one = replace(records[0], rounds=records[0].rounds[-1:])
    (line,) = draw_picture([one]).axes[0].get_lines()
    assert line.get_marker() == "o"  # a line of one point would not show


def test_the_file_is_an_image(records):
    with Image.open(save_picture(records)) as image:
        assert image.format == "PNG"
        assert image.width > image.height > 300


@pytest.mark.slow
def test_figures_for_papers(records, tmp_path: Path):
    files = save_figures(records, tmp_path / "figures")
    assert {file.stem for file in files} == set(FIGURES)
    for file in files:
        content = file.read_bytes()
        if file.suffix == ".pdf":
            assert content.startswith(b"%PDF")
            assert b"/FontFile2" in content  # TrueType, inside
            assert b"/Type3" not in content
        else:
            wide = 7.0 if file.stem in ("clients", "ranking", "labels") else 3.3
            assert f'width="{72 * wide:g}pt"'.encode() in content
    before = {file: file.read_bytes() for file in files}
    again = save_figures(records, tmp_path / "figures")
    assert {file: file.read_bytes() for file in again} == before


@pytest.mark.slow
def test_a_name_with_dollars_is_no_formula(records, tmp_path: Path):
    odd = replace(records[0], label="$\\frac{")
    assert len(save_figures([odd], tmp_path)) == 2 * len(FIGURES)


def test_figures_of_a_run_that_has_little(tmp_path: Path):
    folder = made_run(tmp_path / "a", Shape(rounds=1), "warmup.iterations=0", "method.name=fedavg",
                      ended=False, opinion=False)  # fmt: skip
    made = {file.stem for file in save_figures(read_runs([folder]), tmp_path / "figures")}
    assert made == {"accuracy", "stability"}

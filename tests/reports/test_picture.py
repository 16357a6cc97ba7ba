from dataclasses import replace
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from PIL import Image
from tests.reports.folders import Shape, made_run

from feddiv.reports.figures import FIGURES, SETTINGS, save_figures
from feddiv.reports.palette import FAINT
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


@pytest.fixture(scope="module")
def many(records: list[RunRecord]) -> list[RunRecord]:
    """Variants beside each other, and a method without warm-up."""
    names = ("feddiv", "feddiv-paper", "feddiv-release", "feddiv-no-pcs")
    others = [replace(records[0], method=name, label=name) for name in names]
    plain = [{**line, "stage": "train"} for line in records[1].rounds]
    return [*others, replace(records[1], rounds=plain)]


@pytest.mark.parametrize("name", ["accuracy", "stability", "filter"])
def test_a_legend_of_many_lies_below_the_curves(many, records, name: str):
    with matplotlib.rc_context(SETTINGS):
        figure, few = FIGURES[name](many), FIGURES[name](records)
        for each in (figure, few):
            each.draw_without_rendering()
    axes = figure.axes[0]
    legend = axes.get_legend().get_window_extent()
    assert legend.y1 < axes.xaxis.label.get_window_extent().y0
    assert legend.x0 >= 0
    assert legend.x1 <= figure.bbox.x1
    assert legend.y0 >= 0
    first = axes.get_legend().get_texts()[0].get_text()
    assert first.split(",")[0] == "feddiv"
    assert few.axes[0].get_legend().get_window_extent().y0 > few.axes[0].bbox.y0


def test_runs_of_one_colour_differ_in_line_and_mark(many):
    lines = FIGURES["clients"](many).axes[0].get_lines()[1:]
    assert len({line.get_color() for line in lines}) == 1
    drawn = {(line.get_marker(), str(line._unscaled_dash_pattern)) for line in lines}
    assert len(drawn) == 4


def test_clean_clients_have_no_precision(records):
    axes = FIGURES["clients"](records[:1]).axes[1]
    assert axes.get_ylabel() == "filter precision"
    clean = np.isnan(axes.get_lines()[1].get_ydata())
    assert clean.tolist() == [True, True, False, False, False, False]


def shades(figure) -> list[tuple[float, str]]:
    """How far each grey ground reaches, and what is written on it."""
    (axes,) = figure.axes
    ends = [
        patch.get_x() + patch.get_width()
        for patch in axes.patches
        if matplotlib.colors.same_color(patch.get_facecolor(), FAINT)
    ]
    return list(zip(ends, [text.get_text() for text in axes.texts], strict=True))


def test_warm_up_is_grey_where_every_run_has_it(many, records):
    assert shades(FIGURES["accuracy"](records)) == [(1.0, "warm-up")]
    assert shades(FIGURES["accuracy"](many)) == [(1.0, "warm-up of feddiv")]
    longer = [{**line, "stage": "warmup"} for line in records[0].rounds]
    beside = [replace(records[0], rounds=longer), records[1]]
    assert shades(FIGURES["accuracy"](beside)) == [(1.0, "warm-up")]
    assert shades(FIGURES["accuracy"](many[-1:])) == []


@pytest.mark.parametrize("rounds", [1, 2, 4])
@pytest.mark.parametrize("name", ["accuracy", "memorisation", "sets"])
def test_there_are_no_halves_of_rounds(records, name: str, rounds: int):
    short = replace(records[0], rounds=records[0].rounds[-rounds:])
    figure = FIGURES[name]([short])
    figure.draw_without_rendering()
    ticks = [text.get_text() for text in figure.axes[0].get_xticklabels()]
    assert ticks
    assert all(tick.isdigit() for tick in ticks)

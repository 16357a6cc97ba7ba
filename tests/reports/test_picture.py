from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from feddiv.config.reading import load_experiment
from feddiv.reports.picture import Scores, draw_picture, save_picture
from feddiv.runs.run import Run


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Two clients with two right and one wrong label each, and a rival."""
    experiment = load_experiment("quickstart")
    rounds = [
        {"turn": 1, "round": 2, "stage": "warmup", "test_accuracy": 0.4, "mixture": None},
        {"turn": 2, "round": 3, "stage": "train", "test_accuracy": 0.8, "mixture": None},
        {"turn": 3, "round": 4, "stage": "train", "test_accuracy": 0.9,
         "mixture": [-4.0, 4.0, 1.0, 1.0, 2 / 3, 1 / 3]},
    ]  # fmt: skip
    assessment = {
        "client": np.array([0, 0, 0, 1, 1, 1]),
        "given_label": np.array([0, 1, 2, 0, 1, 2]),
        "true_label": np.array([0, 1, 0, 0, 1, 0]),
        "score": np.array([-4.0, -3.0, 4.0, -6.0, -5.0, 2.0]),
    }
    summary = {"mean_last10_test_accuracy": 0.7}
    rival = Run(
        load_experiment("quickstart", ["method.name=fedavg"]), tmp_path, summary, rounds, {}
    )
    return Run(experiment, tmp_path, summary, rounds, assessment, {"fedavg": rival})


def test_accuracy_of_all_runs_and_the_scores(run):
    figure = draw_picture(run)
    accuracy, scores = figure.axes
    lines = {line.get_label().split(",")[0]: line for line in accuracy.get_lines()}
    assert list(lines) == ["fedavg", "feddiv"]
    assert lines["feddiv"].get_xydata().tolist() == [[2, 0.4], [3, 0.8], [4, 0.9]]
    assert lines["feddiv"].get_linewidth() > lines["fedavg"].get_linewidth()
    _, names = scores.get_legend_handles_labels()
    assert sorted(names) == [
        "filter: clean",
        "filter: noisy",
        "right labels (4)",
        "wrong labels (2)",
    ]


def test_densities_hold_as_many_labels_as_the_histogram(run):
    scores = draw_picture(run).axes[1]
    edges = np.histogram_bin_edges(run.assessment["score"], bins=48)
    total = 0.0
    for line in scores.get_lines():
        grid, counts = line.get_xydata().T
        total += np.trapezoid(counts, grid) / (edges[1] - edges[0])
    # The range of the scores cuts off both tails: Phi(2) = .977 below, Phi(0) = .5 above.
    assert total == pytest.approx(6 * (2 / 3 * 0.9772 + 1 / 3 * 0.5), abs=0.05)


def test_minmax_scores_are_scaled_at_each_client(run):
    paper = load_experiment("quickstart", ["method.variant=paper"])
    scores = Scores.of(replace(run, experiment=paper))
    assert scores is not None
    assert scores.values == pytest.approx([0, 1 / 8, 1, 0, 1 / 8, 1])


def test_without_true_labels_there_is_one_colour(run):
    del run.assessment["true_label"]
    _, names = draw_picture(run).axes[1].get_legend_handles_labels()
    assert "given labels" in names
    assert not [name for name in names if "wrong" in name]


def test_without_scores_there_is_one_panel(run):
    assert len(draw_picture(replace(run, assessment={})).axes) == 1


def test_equal_scores_and_a_single_round(run):
    run.assessment["score"] = np.zeros(6)
    assert len(draw_picture(replace(run, rounds=run.rounds[-1:])).axes) == 2


def test_scores_that_differ_by_rounding_only(run):
    # A model that says the same of every sample: no 48 bins fit between its scores.
    run.assessment["score"] = np.log(9) + 1e-15 * np.arange(6)
    assert len(draw_picture(run).axes) == 2


def test_the_file_is_an_image(run):
    with Image.open(save_picture(run)) as image:
        assert image.format == "PNG"
        assert image.width > image.height > 300

"""How a run shows itself in Python."""

from base64 import b64encode
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import feddiv
from feddiv.config.reading import load_experiment

SUMMARY: dict[str, Any] = {
    "dataset": "digits",
    "mean_last10_test_accuracy": 0.9794,
    "best_test_accuracy": 0.9889,
    "last_test_accuracy": 0.9722,
    "filter": {"f1": 0.9968},
    "flagged": 0.45,
    "wrong": 0.4504,
    "seconds": 25.2,
}
PLAIN: dict[str, Any] = SUMMARY | {"mean_last10_test_accuracy": 0.899, "filter": None}


@pytest.fixture
def run() -> feddiv.Run:
    """A run of two clients, and its rival."""
    experiment = load_experiment("quickstart")
    assessment = {"client": np.array([0, 0, 1])}
    fedavg = load_experiment("quickstart", ["method.name=fedavg"])
    rival = feddiv.Run(fedavg, Path("runs/a/against/fedavg"), PLAIN, [], assessment)
    return feddiv.Run(experiment, Path("runs/a"), SUMMARY, [], assessment, {"fedavg": rival})


class Page(HTMLParser):
    """The cells of a page by rows, its images, and all of its tags."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.images: list[str] = []
        self.tags: list[str] = []
        self.inside = False  # a cell
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.inside = tag in ("td", "th")
        if tag == "tr":
            self.rows.append([])
        elif tag == "img":
            self.images.append(dict(attrs)["src"] or "")

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.rows[-1].append(data)

    def handle_endtag(self, tag: str) -> None:
        self.inside = False


def test_a_run_prints_in_one_line(run: feddiv.Run) -> None:
    assert repr(run) == (
        "<Run of feddiv on digits: test accuracy 97.9% in the last ten rounds, best 98.9%; "
        "filter F1 0.997; folder runs/a>"
    )
    assert "fedavg on digits: test accuracy 89.9%" in repr(run.against["fedavg"])
    assert "filter F1" not in repr(run.against["fedavg"])


def test_options_that_differ_from_the_variants_are_marked(run: feddiv.Run) -> None:
    changed = load_experiment("quickstart", ["method.weigh_by_trust=never"])
    assert repr(replace(run, experiment=changed)).startswith("<Run of feddiv* on digits: ")


def test_without_a_test_set_the_line_tells_of_held_out_samples(run: feddiv.Run) -> None:
    held_out = load_experiment("quickstart", ["evaluation.name=held_out"])
    summary = {"mean_last10_held_out_accuracy": 0.5, "best_held_out_accuracy": 0.625}
    line = repr(replace(run, experiment=held_out, summary=summary))
    assert "held out accuracy 50.0% in the last ten rounds, best 62.5%" in line


def test_a_notebook_shows_the_table(run: feddiv.Run) -> None:
    page = Page(run._repr_html_())
    assert page.rows == [
        ["method", "last ten", "best", "last", "filter F1", "flagged", "time"],
        ["feddiv", "97.9%", "98.9%", "97.2%", "0.997", "45.0%", "25 s"],
        ["fedavg", "89.9%", "98.9%", "97.2%", "-", "45.0%", "25 s"],
    ]
    assert "digits, 2 clients, 33 rounds, seed 0, 45.0% of the given labels wrong" in (
        run._repr_html_()
    )
    assert page.images == [], "there is no picture yet"


def test_a_notebook_shows_the_picture_of_the_folder(run: feddiv.Run, tmp_path: Path) -> None:
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    page = Page(replace(run, folder=tmp_path)._repr_html_())
    content = b64encode(b"\x89PNG").decode()
    assert page.images == [f"data:image/png;base64,{content}"]


def test_names_do_nothing_to_a_notebook(run: feddiv.Run) -> None:
    script = "<script>alert(1)</script>"
    rival = run.against["fedavg"]
    odd = replace(
        run,
        folder=Path("runs") / script,
        summary=SUMMARY | {"dataset": script},
        against={script: rival},
    )
    page = Page(odd._repr_html_())
    assert "script" not in page.tags
    assert page.rows[2][0] == script


def test_names_do_nothing_to_a_terminal(run: feddiv.Run) -> None:
    assert "runs/\\x1b[2J>" in repr(replace(run, folder=Path("runs/\x1b[2J")))
    assert "\n" not in repr(replace(run, folder=Path("runs/a\nb")))

"""The end of a run for people: as a table, in one line, in a notebook."""

from base64 import b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from feddiv.config.experiment import rival_titles, title
from feddiv.config.sections import HeldOut
from feddiv.core.terminal import duration, shown
from feddiv.runs.privacy_summary import privacy_lines
from feddiv.runs.run_folder import PICTURE

if TYPE_CHECKING:
    from feddiv.runs.run import Run

BELIEVED: Final = "mean_last10_believed_accuracy"
CENTRAL: Final = (
    "Test accuracy: mean of the last ten rounds, best round on the test set, last round.",
)
DOUBTFUL: Final = (
    "Test samples are some of your own, whose labels may be wrong, and a model that contradicts a",
    "wrong label counts as wrong: mean of the last ten rounds, best round, last round. Believed:",
    "accuracy on those test labels only that the method believes, mean of the last ten rounds.",
)
HELD_OUT: Final = (
    "Accuracy on samples that clients keep out of training, against their given labels: mean of",
    "the last ten rounds, best round, last round. Believed: against those labels only that the",
    "method believes, mean of the last ten rounds.",
)


@dataclass(frozen=True)
class Results:
    """A run and those it was compared with, side by side; `rows` begin with the method's name."""

    heading: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]

    @classmethod
    def of(cls, run: "Run") -> "Results":
        """The run first, then its rivals."""
        held_out = isinstance(run.experiment.evaluation, HeldOut)
        believed = ("believed",) if BELIEVED in run.summary else ()
        return cls(
            heading=_heading(run),
            columns=(
                "method", "last ten", "best", "last", *believed, "filter F1", "flagged", "time",
            ),
            rows=tuple((name, *_cells(each, believed)) for name, each in titled(run).items()),
            notes=(
                *(HELD_OUT if held_out else DOUBTFUL if believed else CENTRAL),
                *privacy_lines(run.summary),
            ),
        )  # fmt: skip


def titled(run: "Run") -> dict[str, "Run"]:
    """The run and then its rivals, by their names for tables."""
    names = rival_titles(run.experiment, run.against)
    rivals = {names[name]: rival for name, rival in run.against.items()}
    return {title(run.experiment): run, **rivals}


def in_one_line(run: "Run") -> str:
    """Method, data, accuracy, quality of the filter, and the folder."""
    summary, measure = run.summary, run.experiment.evaluation.measure
    ends = f"{_percent(summary.get(f'mean_last10_{measure}'))} in the last ten rounds"
    doubt = "on doubtful labels: " if summary.get("doubtful_test_labels") else ""
    best = f"best {_percent(summary.get(f'best_{measure}'))}"
    facts = (
        f"{doubt}{measure.replace('_', ' ')} {ends}, {best}",
        *([f"believed {_percent(summary[BELIEVED])}"] if BELIEVED in summary else []),
        *([f"filter F1 {_f1(run)}"] if summary.get("filter") else []),
        f"folder {shown(str(run.folder))}",
    )
    what = f"{title(run.experiment)} on {run.experiment.data.source}"
    return f"<Run of {what}: {'; '.join(facts)}>"


def as_html(run: "Run") -> str:
    """The table, and the picture where the folder has one."""
    results = Results.of(run)
    body = "".join(_html_row(row, "td") for row in results.rows)
    return "\n".join(
        (
            f"<p><b>{escape(results.heading)}</b></p>",
            f"<table>{_html_row(results.columns, 'th')}{body}</table>",
            f"<p>{escape(' '.join(results.notes))}</p>",
            f"<p>Written to <code>{escape(shown(str(run.folder)))}</code></p>",
            *_html_picture(run.folder / PICTURE),
        )
    )


def _html_row(cells: Iterable[str], kind: str) -> str:
    first, *rest = (escape(cell) for cell in cells)
    left = f'<{kind} style="text-align: left">{first}</{kind}>'
    return f"<tr>{left}{''.join(f'<{kind}>{cell}</{kind}>' for cell in rest)}</tr>"


def _html_picture(file: Path) -> list[str]:
    """Inside the page itself: a notebook may be read where the folder is not."""
    if not file.is_file():
        return []
    content = b64encode(file.read_bytes()).decode()
    words = "Accuracy by round, and the scores of the labels"
    return [f'<img alt="{words}" style="max-width: 100%" src="data:image/png;base64,{content}">']


def _heading(run: "Run") -> str:
    experiment, summary = run.experiment, run.summary
    told = summary.get("assessed_clients")  # where assessments stay with the clients
    clients = len(np.unique(run.assessment["client"])) if told is None else told
    wrong = summary.get("wrong")
    labels = "" if wrong is None else f", {wrong:.1%} of the given labels wrong"
    return (
        f"{summary['dataset']}, {clients} clients, {experiment.rounds} rounds, "
        f"seed {experiment.seed}{labels}"
    )


def _cells(run: "Run", believed: tuple[str, ...]) -> list[str]:
    summary, measure = run.summary, run.experiment.evaluation.measure
    return [
        _percent(summary[f"mean_last10_{measure}"]),
        _percent(summary[f"best_{measure}"]),
        _percent(summary[f"last_{measure}"]),
        *(_percent(summary.get(BELIEVED)) for _ in believed),
        _f1(run),
        _percent(summary["flagged"]),
        duration(summary["seconds"]),
    ]


def _f1(run: "Run") -> str:
    f1 = (run.summary.get("filter") or {}).get("f1")
    return "-" if f1 is None else f"{f1:.3f}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"

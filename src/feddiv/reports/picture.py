"""One picture of a run: accuracy by round, and what its filter sees in the given labels."""

from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from feddiv.core.arrays import Array
from feddiv.core.files import write_bytes
from feddiv.learning.gaussian_mixture import Mixture
from feddiv.methods.feddiv.filter import FilterOptions, NoiseFilter
from feddiv.runs.results import titled
from feddiv.runs.run import Run
from feddiv.runs.run_folder import PICTURE

# Okabe and Ito's colours, which the colour-blind can tell apart.
BLUE, VERMILLION = "#0072B2", "#D55E00"
RIVALS = ("#666666", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
INK, FAINT = "#333333", "#F0F0F0"
BINS = 48
SCORES = {
    "log_odds": "log-odds against the given label",
    "cross_entropy": "cross-entropy of the given label",
    "bounded": "bounded cross-entropy of the given label",
}


@dataclass(frozen=True)
class Scores:
    """Scores of all given labels as the filter sees them, and what is known about the labels."""

    values: Array  # [n]
    wrong: npt.NDArray[np.bool_] | None  # [n], where true labels are known
    mixture: Mixture | None  # the filter at the end of the run
    axis: str

    @classmethod
    def of(cls, run: Run) -> "Scores | None":
        """None where the method gives no scores."""
        table = run.assessment
        if "score" not in table or not len(table["score"]):
            return None
        options = getattr(run.experiment.method, "filter", None)
        values = np.asarray(table["score"], np.float64)
        axis = "score of the given label"
        if isinstance(options, FilterOptions):
            values = _scaled(values, table["client"], NoiseFilter(options))
            axis = SCORES.get(options.score, options.score)
            axis += ", 0 to 1 at each client" if options.scale == "minmax" else ""
        truth = table.get("true_label")
        wrong = None if truth is None else table["given_label"] != truth
        return cls(values, wrong, _mixture(run.rounds[-1]), axis)


def _scaled(values: Array, clients: npt.NDArray[Any], noise_filter: NoiseFilter) -> Array:
    result = np.empty_like(values)
    for client in np.unique(clients):
        rows = clients == client
        result[rows] = noise_filter.scale(values[rows])
    return result


def _mixture(line: Mapping[str, Any]) -> Mixture | None:
    numbers = line.get("mixture")
    if numbers is None:
        return None
    return Mixture.unpacked(np.asarray(numbers, np.float64))


def save_picture(run: Run) -> Path:
    """Write the picture into the run's folder."""
    image, path = BytesIO(), run.folder / PICTURE
    draw_picture(run).savefig(image, format="png", dpi=150, facecolor="white")
    write_bytes(path, image.getvalue())
    return path


def is_drawn(run: Run) -> bool:
    """Whether the picture in the run's folder is of these results: it is written after them all."""
    picture, runs = run.folder / PICTURE, (run, *run.against.values())
    if not picture.is_file():
        return False
    written = max((each.folder / "summary.json").stat().st_mtime_ns for each in runs)
    return picture.stat().st_mtime_ns >= written


def draw_picture(run: Run) -> Figure:
    """Accuracy on the left; the scores on the right, where the method has any."""
    scores = Scores.of(run)
    figure = Figure(figsize=(6.2 if scores is None else 11.5, 4.4), layout="constrained")
    FigureCanvasAgg(figure)
    widths = 1 if scores is None else 2
    panels = figure.subplots(1, widths, squeeze=False, gridspec_kw={"wspace": 0.06})[0]
    draw_accuracy(panels[0], run)
    if scores is not None:
        draw_scores(panels[1], scores)
    return figure


def draw_accuracy(axes: Axes, run: Run) -> None:
    """Accuracy by communication round, the rivals' behind the run's own."""
    held_out = _measure(run) != "test_accuracy"
    if not held_out and not _believes(run):
        _dress(axes, "Test accuracy by round", "communication round", "test accuracy")
    else:
        heading = f"Accuracy on {'held-out' if held_out else 'test'} samples by round"
        _dress(axes, heading, "communication round", "against given labels (dashed: believed)")
    (own, _), *rivals = titled(run).items()
    for place, (name, rival) in enumerate(rivals):
        _line(axes, name, rival, color=RIVALS[place % len(RIVALS)], linewidth=1.3)
    _line(axes, own, run, color=BLUE, linewidth=2.2)

    rounds = run.rounds_spent
    warm = [line["round"] for line in run.rounds if line["stage"] == "warmup"]
    axes.set_xlim(0, rounds.max())
    every = np.concatenate([each.column(_measure(run)) for each in (run, *run.against.values())])
    low = float(every[np.isfinite(every)].min(initial=1.0))
    axes.set_ylim(max(0.0, low - 0.05), 1.02)
    axes.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))
    if warm:
        axes.axvspan(0, max(warm), color=FAINT, zorder=0)
        axes.annotate(
            "warm-up", (max(warm) / 2, 0.985), xycoords=("data", "axes fraction"),
            ha="center", va="top", fontsize=8.5, color="#777777",
        )  # fmt: skip
    handles, labels = axes.get_legend_handles_labels()
    if not _believes(run):
        axes.legend(handles[::-1], labels[::-1], loc="lower right", frameon=False)
    else:  # lines may be anywhere, and two of each colour
        legend = axes.legend(handles[::-1], labels[::-1], loc="upper left", frameon=False)
        legend.set_bbox_to_anchor((0.0, -0.14))


def _line(axes: Axes, name: str, run: Run, *, color: str, linewidth: float) -> None:
    keys = {_measure(run): "solid"} | ({"believed_accuracy": "dashed"} if _believes(run) else {})
    means = {key: run.summary[f"mean_last10_{key}"] for key in keys}
    said = [f"{mean:.1%}" for mean in means.values() if mean is not None]
    label = f"{name}, last ten rounds {', believed '.join(said)}"
    for key, style in keys.items():
        accuracy = run.column(key)
        known = np.isfinite(accuracy)  # rounds may go by without evaluation, or an opinion
        axes.plot(
            run.rounds_spent[known],
            accuracy[known],
            color=color,
            linewidth=linewidth,
            linestyle=style,
            label=label if style == "solid" else None,
            marker="o" if known.sum() < 3 else None,  # a line of one round would not show
        )


def _measure(run: Run) -> str:
    return run.experiment.evaluation.measure


def _believes(run: Run) -> bool:
    """Whether there is an accuracy on believed labels beside that on the given ones."""
    return "mean_last10_believed_accuracy" in run.summary


def draw_scores(axes: Axes, scores: Scores) -> None:
    """How many labels have which score, and the filter's two densities scaled to counts."""
    _dress(axes, "What the filter sees at the end", scores.axis, "labels")
    low, high = float(scores.values.min()), float(scores.values.max())
    margin = 0.5 if high - low < 1e-6 else 0.0  # numpy cannot cut a range of rounding errors
    edges = np.linspace(low - margin, high + margin, BINS + 1)
    if scores.wrong is None:
        groups, colors, names = [scores.values], ["#BBBBBB"], ["given labels"]
    else:
        right, wrong = scores.values[~scores.wrong], scores.values[scores.wrong]
        groups, colors = [right, wrong], [BLUE, VERMILLION]
        names = [f"right labels ({len(right):,})", f"wrong labels ({len(wrong):,})"]
    axes.hist(groups, bins=list(edges), stacked=True, color=colors, label=names, alpha=0.45)
    if scores.mixture is not None:
        _densities(axes, scores.mixture, edges, len(scores.values))
    axes.set_xlim(edges[0], edges[-1])
    axes.legend(loc="best", frameon=False)


def _densities(axes: Axes, mixture: Mixture, edges: Array, count: int) -> None:
    grid = np.linspace(edges[0], edges[-1], 400)
    curves = np.exp(mixture.log_joint(grid)) * count * (edges[1] - edges[0])
    for curve, color, name in zip(curves, (BLUE, VERMILLION), ("clean", "noisy"), strict=True):
        axes.plot(grid, curve, color=color, linewidth=2, label=f"filter: {name}")


def _dress(axes: Axes, heading: str, across: str, up: str) -> None:
    axes.set_title(heading, loc="left", fontsize=12, fontweight="bold", color=INK)
    axes.set_xlabel(across, color=INK)
    axes.set_ylabel(up, color=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=INK)
    axes.set_axisbelow(True)
    axes.grid(axis="y", color="#E6E6E6", linewidth=0.8)

"""The charts of a report for print, one function each: they draw on axes that they are given.

Sizes and fonts are the caller's; colours stay with a method, as on the page.
"""

from collections.abc import Sequence
from typing import Final, Literal

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath
from matplotlib.ticker import (
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    PercentFormatter,
)

from feddiv.core.terminal import shown
from feddiv.reports.client_quality import by_client, clients_of
from feddiv.reports.confusions import Cells
from feddiv.reports.ending import Ending
from feddiv.reports.palette import COLOURS, FAINT, INK, SLATE, VERMILLION, Style, styles
from feddiv.reports.ranking import Ranking
from feddiv.reports.record import RunRecord
from feddiv.reports.scores import Scores
from feddiv.reports.verdict import percent

BLUE: Final = COLOURS["blue"][0]
ORANGE: Final = COLOURS["orange"][0]
BESIDE: Final = 3  # entries of a legend that may lie among the curves
MARKERS: Final = {"circle": "o", "square": "s", "triangle": "^", "diamond": "D", "down": "v"}
GRID: Final = "#E6E6E6"
RIGHT: Final = LinearSegmentedColormap.from_list("right", ["#DCEAF3", BLUE])
WRONG: Final = LinearSegmentedColormap.from_list("wrong", ["#FBE3D3", VERMILLION])


def dress(axes: Axes, across: str, up: str) -> None:
    """Names of the axes, a faint grid, no box."""
    axes.set_xlabel(across, color=INK)
    axes.set_ylabel(up, color=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=INK)
    axes.set_axisbelow(True)
    axes.grid(axis="y", color=GRID, linewidth=0.6)


def dress_rounds(axes: Axes, up: str, across: str = "communication round") -> None:
    """The same along rounds, of which there are no halves."""
    dress(axes, across, up)
    axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True, min_n_ticks=1))


def add_legend(
    axes: Axes,
    place: Literal["best", "lower right"] = "best",
    title: str | None = None,
    *,
    below: bool = False,
) -> None:
    """A legend without a box; one of many entries lies below the axes, off the curves."""
    handles, labels = axes.get_legend_handles_labels()
    handles, labels = handles[::-1], labels[::-1]  # the first run is drawn last
    if len(labels) <= BESIDE and not below:
        axes.legend(handles, labels, loc=place, frameon=False, title=title)
        return
    axes.legend(
        handles,
        labels,
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        borderaxespad=4.0,  # in sizes of the font: below the ticks and the name of the axis
        ncols=legend_columns(axes, labels),
        columnspacing=1.2,
        frameon=False,
        title=title,
    )


def legend_columns(axes: Axes, labels: Sequence[str]) -> int:
    """How many columns of such labels go below the axes."""
    spec = axes.get_subplotspec()
    figure = axes.get_figure(root=True)
    assert figure is not None
    room = figure.get_figwidth() / (spec.get_gridspec().ncols if spec else 1)
    font = FontProperties(size=matplotlib.rcParams["legend.fontsize"])
    size = font.get_size_in_points()
    widest = max(TextPath((0, 0), label, size, prop=font).get_extents().width for label in labels)
    # Each has a line before it, of the width of three letters, and the next one after it. It lies
    # below the middle of the axes, which is right of the figure's.
    column, half_off = (widest + 4.2 * size) / 72, 0.93
    return int(np.clip(half_off * room // column, 1, 3))


def line_of(style: Style) -> str | tuple[float, tuple[float, ...]]:
    """A line as matplotlib writes it."""
    dashes = tuple(float(each) for each in style.dashes.split())
    return (0.0, dashes) if dashes else "solid"


def drawn(records: Sequence[RunRecord]) -> list[tuple[RunRecord, Style]]:
    """The runs with their styles, the first last, so that it lies above the others."""
    pairs = list(zip(records, styles([each.method for each in records]), strict=True))
    return pairs[:0:-1] + pairs[:1]


def plot_accuracy(axes: Axes, records: Sequence[RunRecord], width: float = 1.2) -> None:
    """Accuracy by communication round; dashed on labels that the method believes."""
    main = records[0]
    believes = any(record.believes for record in records)
    held_out = main.measure != "test_accuracy"
    up = "against given labels (dotted: believed)" if held_out or believes else "test accuracy"
    dress_rounds(axes, up)
    values: list[float] = []
    ending = Ending.of(records)
    for record, style in drawn(records):
        keys = [record.measure] + (["believed_accuracy"] if record.believes else [])
        said = [ending.mean(record), ending.mean(record, "believed_accuracy")]
        ends = ", believed ".join(percent(each) for each in said if each is not None)
        label = f"{shown(record.label)}, {ends}" if ends else shown(record.label)
        for key in keys:
            known = [
                (r, v)
                for r, v in zip(record.spent, record.column(key), strict=True)
                if v is not None
            ]
            values += [v for _, v in known]
            axes.plot(
                [r for r, _ in known],
                [v for _, v in known],
                color=style.on_paper,
                linewidth=1.7 * width if record is main else width,
                linestyle=line_of(style) if key == record.measure else "dotted",
                label=label if key == record.measure else None,
                marker=MARKERS[style.mark]
                if len(known) < 3
                else None,  # a line of one round would not show
            )
    axes.set_xlim(0, max([1.0, *(record.spent[-1] for record in records if record.spent)]))
    axes.set_ylim(max(0.0, min(values, default=0.05) - 0.05), 1.02)
    axes.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))
    _shade_warmup(axes, records)
    # Where two lines of each colour are drawn, they may be anywhere.
    add_legend(axes, "lower right", ending.words.removeprefix("the "), below=believes)


def _shade_warmup(axes: Axes, records: Sequence[RunRecord]) -> None:
    """As far as every run is in warm-up; where some have none the first one's, by its name."""
    shared, main = min(run.warmup for run in records), records[0]
    end = shared or main.warmup
    if not end:
        return
    axes.axvspan(0, end, color=FAINT, zorder=0)
    axes.annotate(
        "warm-up" if shared else f"warm-up of {shown(main.label)}",
        (0, 0.985),
        (3, 0),  # from the edge, as it may be longer than the warm-up
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
        va="top",
        color="#777777",
        fontsize="small",
    )


def plot_scores(axes: Axes, scores: Scores, axis: str, width: float = 1.2) -> None:
    """How many labels have which score, and the filter's two densities scaled to counts."""
    dress(axes, axis, "labels")
    edges = scores.edges
    below = np.zeros(len(edges) - 1)
    colours = {"right": SLATE, "wrong": VERMILLION, "given": SLATE}
    for kind, counts in scores.counts.items():
        name = f"{kind} labels ({int(sum(counts)):,})" if kind != "given" else "given labels"
        axes.bar(
            edges[:-1],
            counts,
            np.diff(edges),
            align="edge",
            bottom=below,
            color=colours[kind],
            alpha=0.5,
            label=name,
            linewidth=0,
        )
        below = below + np.asarray(counts)
    grid = np.linspace(edges[0], edges[-1], 400)
    densities = scores.densities(grid)
    if densities is not None:
        parts = zip(densities, (BLUE, VERMILLION), ("clean", "noisy"), strict=True)
        for curve, colour, name in parts:
            axes.plot(grid, curve, color=colour, linewidth=1.5 * width, label=f"filter: {name}")
    axes.set_xlim(edges[0], edges[-1])
    axes.legend(loc="best", frameon=False)


def plot_clients(axes: Axes, records: Sequence[RunRecord], measure: str = "accuracy") -> None:
    """A measure of the filter at each client, from the cleanest to the noisiest (Figure 3)."""
    held = clients_of(records[0])
    dress(axes, "clients, from the cleanest to the noisiest", f"filter {measure}")
    places = np.arange(len(held))
    levels = [np.nan if each.wrong is None else each.wrong for each in held]
    axes.plot(places, levels, color=VERMILLION, linestyle="dotted", label="true noise level")
    for record, style in drawn(records):
        judged = by_client(record)
        values = [getattr(judged.get(each.client), measure, None) for each in held]
        heights = np.array([np.nan if value is None else value for value in values], np.float64)
        if not np.isfinite(heights).any() or _other_draw(record, records[0]):
            continue
        axes.plot(
            places,
            heights,
            color=style.on_paper,
            linestyle=line_of(style),
            marker=MARKERS[style.mark],
            linewidth=0.7,
            markersize=3 if len(held) <= 60 else 1.8,
            label=shown(record.label),
        )
    clean = sum(each.clean for each in held)
    if clean:
        axes.axvspan(-0.5, clean - 0.5, color=FAINT, zorder=0)
    axes.set_xlim(-0.5, max(len(held) - 0.5, 0.5))
    axes.set_ylim(-0.02, 1.04)
    axes.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))
    if len(held) <= 40:
        axes.set_xticks(places, [shown(each.name, 10) for each in held])
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(
        handles[::-1], labels[::-1], loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False
    )


def _other_draw(record: RunRecord, main: RunRecord) -> bool:
    if record.draw is None or main.draw is None:
        return True
    return record.draw.hash != main.draw.hash


def plot_ranking(axes: Axes, ranked: Sequence[tuple[str, Style, Ranking]]) -> None:
    """p(clean) of one client's labels by the rank of their scores (Figure 7)."""
    dress(axes, "labels by score, the least doubtful first", "p(clean)")
    axes.axhline(0.5, color=INK, linewidth=0.6, linestyle="dashed")
    for name, style, ranking in reversed(ranked):
        x, p, wrong = ranking.rank + 1, ranking.p_clean, ranking.wrong
        said = shown(name)
        if wrong is not None:
            said = f"{said} ({percent(float(((p < 0.5) == wrong).mean()))} right)"
            axes.plot(x[wrong], p[wrong], ".", color=VERMILLION, markersize=2.5, zorder=3)
        axes.plot(x, p, color=style.on_paper, linestyle=line_of(style), linewidth=1.1, label=said)
    axes.set_ylim(-0.03, 1.03)
    add_legend(axes)


def plot_labels(axes: Axes, cells: Cells | None, classes: int) -> None:
    """True classes down, labels across: right ones blue, wrong ones orange (Figure 8)."""
    rows = [[classes if row < 0 else row, column, count] for row, column, count in cells or []]
    size = max([classes, *(max(row, column) + 1 for row, column, _ in rows)])
    table = np.full((size, size), np.nan)
    for row, column, count in rows:
        table[row, column] = count
    most = float(np.nanmax(table)) if rows else 1.0
    right = np.where(np.eye(size, dtype=bool), table, np.nan)
    wrong = np.where(np.eye(size, dtype=bool), np.nan, table)
    for part, colours in ((right, RIGHT), (wrong, WRONG)):
        axes.imshow(part, cmap=colours, vmin=0, vmax=most, interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set(color=GRID)


def plot_stability(axes: Axes, records: Sequence[RunRecord]) -> None:
    """How far clients' models move against accuracy, round by round (Figure 5)."""
    dress(axes, "squared distance of clients' models", "accuracy")
    for record, style in drawn(records):
        pairs = zip(record.column("divergence"), record.column(record.measure), strict=True)
        known = [(moved, value) for moved, value in pairs if moved and value is not None]
        if not known:
            continue
        x, y = zip(*known, strict=True)
        axes.plot(x, y, color=style.on_paper, linewidth=0.4, alpha=0.4)
        mark = MARKERS[style.mark]
        axes.plot(x, y, mark, color=style.on_paper, markersize=2, label=shown(record.label))
        axes.plot(x[-1:], y[-1:], mark, color=style.on_paper, markersize=5)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=8))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))
    add_legend(axes)


def plot_sets(axes: Axes, run: RunRecord) -> None:
    """What becomes of the labels of each round's clients."""
    dress_rounds(axes, "share of the round's labels")
    columns = [run.column(key) for key in ("clean", "noisy", "relabelled", "reselected")]
    rows = [
        (spent, clean, clean + noisy, relabelled or 0.0, trained)
        for spent, clean, noisy, relabelled, trained in zip(run.spent, *columns, strict=True)
        if clean is not None and noisy is not None and clean + noisy > 0
    ]
    x = [row[0] for row in rows]
    clean = np.array([row[1] / row[2] for row in rows])
    more = np.array([(row[1] + row[3]) / row[2] for row in rows])
    axes.fill_between(x, 0, clean, color=BLUE, alpha=0.6, linewidth=0, label="clean")
    if any(value is not None for value in columns[2]):
        axes.fill_between(x, clean, more, color=ORANGE, alpha=0.6, linewidth=0, label="relabelled")
    axes.fill_between(x, more, 1, color=SLATE, alpha=0.4, linewidth=0, label="left out")
    if any(value is not None for value in columns[3]):
        trained = [np.nan if row[4] is None else row[4] / row[2] for row in rows]
        axes.plot(x, trained, color=INK, linewidth=1, linestyle="dashed", label="trained on")
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)


def plot_column(axes: Axes, records: Sequence[RunRecord], key: str, up: str) -> None:
    """A number of every round, one line for each run; a dot at the end where only that is known."""
    dress_rounds(axes, up)
    for record, style in drawn(records):
        known = [
            (r, v) for r, v in zip(record.spent, record.column(key), strict=True) if v is not None
        ]
        end = record.total(key)
        if not known and end is not None and record.spent:
            known = [(record.spent[-1], end)]
        if not known:
            continue
        x, y = zip(*known, strict=True)
        marker = MARKERS[style.mark] if len(x) < 3 else None
        axes.plot(
            x,
            y,
            color=style.on_paper,
            linestyle=line_of(style),
            linewidth=1.1,
            marker=marker,
            markersize=3,
            label=shown(record.label),
        )
    axes.yaxis.set_major_formatter(PercentFormatter(xmax=1))
    add_legend(axes)

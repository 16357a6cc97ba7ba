"""Figures that rows alone can tell: accuracy by round over seeds, and against ζ."""

import io
import re
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from feddiv.methods.registry import full_name
from feddiv.reports.figures import COLUMN, PAGE, SETTINGS
from feddiv.reports.palette import COLOURS, styles
from feddiv.reports.plots import dress, dress_rounds, line_of
from feddiv.runs.extension import Course
from feddiv.tables.rows import Row
from feddiv.tables.summary_table import SummaryTable

ZETA: Final = re.compile(r"ζ=([0-9.]+)")
FEWEST: Final = 2  # values of ζ that make a line


def svg_of(figure: Figure) -> bytes:
    """The same bytes every time."""
    content = io.BytesIO()
    figure.savefig(content, format="svg", metadata={"Date": None})
    return content.getvalue()


def accuracy_by_round(table: SummaryTable, setting: str) -> bytes:
    """A line for each method, the mean over its seeds; the shade is from the least to the most."""
    lines = [line for line in table.lines if line.setting == setting]
    drawn = styles([_name(line.rows[0]) for line in lines])
    with matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=(PAGE, 2.6), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots()
        dress_rounds(axes, "test accuracy", "round")
        for line, style in zip(lines, drawn, strict=True):
            curves = _curves(line.rows)
            if curves is None:
                continue
            rounds = _rounds(line.rows[0], curves.shape[1])
            axes.plot(
                rounds,
                curves.mean(axis=0),
                color=style.on_paper,
                linestyle=line_of(style),
                linewidth=1.0,
                label=line.method,
            )
            if len(curves) > 1:
                low, high = curves.min(axis=0), curves.max(axis=0)
                axes.fill_between(rounds, low, high, color=style.on_paper, alpha=0.12, linewidth=0)
        if axes.lines:
            figure.legend(loc="outside right center", frameon=False)
        return svg_of(figure)


def against_zeta(table: SummaryTable) -> bytes | None:
    """Best and last-ten accuracy for each ζ, a line for each setting; None where there is no ζ."""
    points = [
        (line, float(found[1])) for line in table.lines if (found := ZETA.fullmatch(line.method))
    ]
    if len({zeta for _, zeta in points}) < FEWEST:
        return None
    with matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=(2 * COLUMN, 2.4), layout="constrained")
        FigureCanvasAgg(figure)
        for axes, measure in zip(figure.subplots(1, 2), ("best", "last ten"), strict=True):
            dress(axes, "ζ", f"test accuracy, {measure}")
            for place, setting in enumerate(table.settings):
                here = [
                    (z, line.measured[measure]) for line, z in points if line.setting == setting
                ]
                known = [
                    (z, each.mean, each.std or 0.0) for z, each in here if each.mean is not None
                ]
                zetas, means, spreads = zip(*known, strict=True) if known else ((), (), ())
                colour = list(COLOURS.values())[place % len(COLOURS)][0]
                axes.errorbar(zetas, means, spreads, color=colour, marker="o", label=setting)
        axes.legend(frameon=False)
        return svg_of(figure)


def _name(row: Row) -> str:
    if row.experiment is None:
        return row.method
    return full_name(row.experiment.method.name, row.experiment.method.variant)


def _rounds(row: Row, records: int) -> list[float]:
    """Rounds that are spent at each record: a turn of warm-up may be worth several."""
    if row.experiment is not None:
        turns = [rounds for _, _, rounds in Course.of(row.experiment).turns]
        if len(turns) == records:
            return list(accumulate(turns))
    return [each + 1.0 for each in range(records)]


def _curves(rows: Sequence[Row]) -> "np.ndarray[tuple[int, int], np.dtype[np.float64]] | None":
    """[seeds, records] of the rows whose curves are as long as the first one's."""
    curves = [
        [np.nan if value is None else value for value in row.test_accuracy]
        for row in rows
        if row.test_accuracy
    ]
    alike = [curve for curve in curves if len(curve) == len(curves[0])]
    return np.array(alike) if alike else None

"""One picture of a run: accuracy by round, and what its filter sees in the given labels."""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from feddiv.core.files import write_bytes
from feddiv.reports.palette import INK
from feddiv.reports.plots import plot_accuracy, plot_scores
from feddiv.reports.record import RunRecord
from feddiv.reports.scores import axis_of, scores_by_round
from feddiv.runs.run_folder import PICTURE


def save_picture(records: Sequence[RunRecord]) -> Path:
    """Write the picture into the folder of the first of these runs."""
    image, path = BytesIO(), records[0].folder / PICTURE
    with matplotlib.rc_context({"text.parse_math": False}):  # a name may have a $ in it
        draw_picture(records).savefig(image, format="png", dpi=150, facecolor="white")
    write_bytes(path, image.getvalue())
    return path


def draw_picture(records: Sequence[RunRecord]) -> Figure:
    """Accuracy of all runs on the left; the scores of the first on the right, if it has any."""
    run = records[0]
    scores = scores_by_round(run)[-1:]
    figure = Figure(figsize=(11.5 if scores else 6.2, 4.4), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 2 if scores else 1, squeeze=False, gridspec_kw={"wspace": 0.06})[0]
    plot_accuracy(panels[0], records, 1.3)
    measured = run.measure.removesuffix("_accuracy").replace("_", "-")
    headings = [f"Accuracy on {measured} samples by round"]
    if scores:
        plot_scores(panels[1], scores[0], axis_of(run), 1.3)
        headings.append("What the filter sees at the end")
    for axes, heading in zip(panels, headings, strict=True):
        axes.set_title(heading, loc="left", fontsize=12, fontweight="bold", color=INK)
    return figure

"""The figures of a report for papers: SVG and PDF, as wide as a column or a page."""

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from feddiv.core.errors import UserError
from feddiv.core.files import write_bytes
from feddiv.core.terminal import shown
from feddiv.reports.client_quality import by_client, clients_of, hardest
from feddiv.reports.confusions import confusions, representative
from feddiv.reports.palette import INK, styles
from feddiv.reports.plots import (
    BESIDE,
    plot_accuracy,
    plot_clients,
    plot_column,
    plot_labels,
    plot_ranking,
    plot_scores,
    plot_sets,
    plot_stability,
)
from feddiv.reports.ranking import rankings
from feddiv.reports.record import RunRecord
from feddiv.reports.scores import axis_of, scores_by_round
from feddiv.reports.verdict import percent

COLUMN, PAGE = 3.3, 7.0  # inches
FORMATS: Final = ("svg", "pdf")
SETTINGS: Any = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "font.family": "sans-serif",
    "font.sans-serif": ["Arial", "Helvetica", "Liberation Sans", "DejaVu Sans"],
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "pdf.fonttype": 42,  # TrueType, which publishers ask for
    "svg.fonttype": "path",  # looks the same where a font is missing
    "text.parse_math": False,  # a name may have a $ in it
    "svg.hashsalt": "feddiv",  # the same bytes every time
}
STAGES: Final = ("given", "after filter\nand relabelling", "after the sampler")


def save_figures(records: Sequence[RunRecord], folder: Path) -> list[Path]:
    """Write all figures that these runs have something for; gives the files."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"--figures {folder}: is a file, not a folder")
    with matplotlib.rc_context(SETTINGS):
        drawn = {name: figure for name, make in FIGURES.items() if (figure := make(records))}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            return [
                _save(figure, folder / f"{name}.{kind}")
                for name, figure in drawn.items()
                for kind in FORMATS
            ]
        except OSError as error:
            raise UserError(f"--figures {folder}: {error.strerror or error}") from None


def _save(figure: Figure, file: Path) -> Path:
    content, kind = io.BytesIO(), file.suffix[1:]
    date = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}[kind]
    figure.savefig(content, format=kind, metadata=date)
    write_bytes(file, content.getvalue())
    return file


def _figure(width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _legend(entries: int) -> float:
    """The height of a legend of so many where it lies below the axes."""
    return 0.15 * entries if entries > BESIDE else 0.0


def _accuracy(records: Sequence[RunRecord]) -> Figure | None:
    if not any(value is not None for each in records for value in each.column(each.measure)):
        return None
    figure = _figure(COLUMN, 2.4 + _legend(len(records)))
    plot_accuracy(figure.subplots(), records, 1.0)
    return figure


def _scores(records: Sequence[RunRecord]) -> Figure | None:
    for record in records:
        if frames := scores_by_round(record):
            figure = _figure(COLUMN, 2.4)
            plot_scores(figure.subplots(), frames[-1], axis_of(record), 0.8)
            return figure
    return None


def _clients(records: Sequence[RunRecord]) -> Figure | None:
    """Figures 3 and 6: accuracy, precision and recall, one below the other."""
    main = records[0]
    known = {
        m
        for r in records
        for q in by_client(r).values()
        for m in MEASURED
        if getattr(q, m) is not None
    }
    if not known or not clients_of(main):
        return None
    chosen = [measure for measure in MEASURED if measure in known]
    figure = _figure(PAGE, 1.7 * len(chosen))
    panels = figure.subplots(len(chosen), 1, sharex=True, squeeze=False)[:, 0]
    for axes, measure in zip(panels, chosen, strict=True):
        plot_clients(axes, records, measure)
        if axes is not panels[-1]:
            axes.set_xlabel("")
        if axes is not panels[0]:
            axes.get_legend().remove()
    return figure


MEASURED: Final = ("accuracy", "precision", "recall")


def _ranking(records: Sequence[RunRecord]) -> Figure | None:
    """Figure 7: the hardest clean and the hardest noisy client."""
    main = records[0]
    held, judged = clients_of(main), by_client(main)
    chosen = [(kind, hardest(held, judged, clean=kind == "clean")) for kind in ("clean", "noisy")]
    known = [(kind, client) for kind, client in chosen if client is not None]
    if not known:
        return None
    figure = _figure(PAGE, 2.3 + _legend(len(records)))
    names = {each.client: each for each in held}
    all_of = list(zip(records, styles([each.method for each in records]), strict=True))
    for axes, (kind, client) in zip(
        figure.subplots(1, len(known), squeeze=False)[0], known, strict=True
    ):
        ranked = [
            (record.label, style, ranking)
            for record, style in all_of
            if (ranking := rankings(record, 100_000).get(client)) is not None
            and record.draw is not None
            and main.draw is not None
            and record.draw.hash == main.draw.hash
        ]
        plot_ranking(axes, ranked)
        wrong = percent(names[client].wrong)
        heading = f"{kind} client {shown(names[client].name, 20)}, {wrong} wrong"
        axes.set_title(heading, loc="left", color=INK)
    return figure


def _labels(records: Sequence[RunRecord]) -> Figure | None:
    """Figure 8: three confusion matrices for each of five clients."""
    for record in records:
        known = confusions(record)
        held = clients_of(record)
        if not known:
            continue
        chosen = representative(held, set(known))
        figure = _figure(PAGE, PAGE * 3 / 5 + 0.5)
        grid = figure.subplots(3, len(chosen), squeeze=False)
        wrong = {each.client: each for each in held}
        for column, client in enumerate(chosen):
            cells = known[client]
            for row, part in enumerate((cells.given, cells.filtered, cells.reselected)):
                plot_labels(grid[row, column], part, len(record.classes))
            name = f"client {shown(wrong[client].name, 12)}, {percent(wrong[client].wrong)} wrong"
            grid[0, column].set_title(name, color=INK)
        for row, stage in enumerate(STAGES):
            grid[row, 0].set_ylabel(stage, color=INK)
        return figure
    return None


def _stability(records: Sequence[RunRecord]) -> Figure | None:
    pairs = ((run.column("divergence"), run.column(run.measure)) for run in records)
    if not any(a and b is not None for one, two in pairs for a, b in zip(one, two, strict=True)):
        return None
    figure = _figure(COLUMN, 2.4 + _legend(len(records)))
    plot_stability(figure.subplots(), records)
    return figure


def _sets(records: Sequence[RunRecord]) -> Figure | None:
    for record in records:
        pairs = zip(record.column("clean"), record.column("noisy"), strict=True)
        if any(clean is not None and noisy is not None and clean + noisy for clean, noisy in pairs):
            figure = _figure(COLUMN, 2.4)
            plot_sets(figure.subplots(), record)
            return figure
    return None


def _column(key: str, up: str) -> Callable[[Sequence[RunRecord]], Figure | None]:
    def make(records: Sequence[RunRecord]) -> Figure | None:
        if not any(value is not None for each in records for value in each.column(key)):
            return None
        figure = _figure(COLUMN, 2.4 + _legend(len(records)))
        plot_column(figure.subplots(), records, key, up)
        return figure

    return make


FIGURES: Final[dict[str, Callable[[Sequence[RunRecord]], Figure | None]]] = {
    "accuracy": _accuracy,
    "scores": _scores,
    "filter": _column("filter.f1", "filter F1"),
    "clients": _clients,
    "ranking": _ranking,
    "labels": _labels,
    "stability": _stability,
    "sets": _sets,
    "memorisation": _column("memorisation", "wrong labels that are predicted"),
}

"""One picture of a draw: clients by classes, and how noisy each client is."""

from pathlib import Path
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from feddiv.core.errors import UserError
from feddiv.core.given_files import check_writable
from feddiv.core.terminal import shown
from feddiv.reports.holdings import Holdings
from feddiv.reports.palette import COLOURS as NAMED_COLOURS
from feddiv.reports.palette import INK, VERMILLION

UNKNOWN: Final = "#BBBBBB"
COLOURS: Final = {
    "symmetric": NAMED_COLOURS["blue"][0],
    "human": NAMED_COLOURS["green"][0],
    "instance": NAMED_COLOURS["purple"][0],
    "pair": NAMED_COLOURS["orange"][0],
    "open_set": NAMED_COLOURS["sky"][0],
}
NAMED: Final = 30  # up to so many clients or classes are named one by one
FORMATS: Final = (".png", ".svg", ".pdf")


def save_holdings(held: Holdings, path: Path) -> None:
    """Write the picture; the name says in which format."""
    if path.suffix.lower() not in FORMATS:
        raise UserError(f"--out {path}: a picture's name ends in {', '.join(FORMATS)}")
    check_writable(path, "--out")
    if not path.parent.is_dir():
        raise UserError(f"--out {path}: there is no folder {path.parent}")
    try:
        draw_holdings(held).savefig(path, dpi=150, facecolor="white")
    except OSError as error:
        raise UserError(f"--out {path}: {error.strerror or error}") from None


def draw_holdings(held: Holdings) -> Figure:
    """Classes across, clients down; beside them a bar for each client's share of wrong labels."""
    clients, classes = len(held.clients), len(held.classes)
    height = min(max(3.6, 1.9 + 0.24 * clients), 13.0)
    width = min(max(7.5, 4.5 + 0.42 * classes), 14.0)
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    heat, bars = figure.subplots(1, 2, sharey=True, gridspec_kw={"width_ratios": (width - 3.2, 3)})
    _heat(figure, heat, held)
    _bars(bars, held)
    summary = f"{held.dataset}: {held.samples:,} samples at {clients} clients"
    if held.wrong is not None:
        summary += f", {held.wrong:.1%} of the labels wrong"
    figure.suptitle(summary, x=0.01, ha="left", fontsize=12, fontweight="bold", color=INK)
    return figure


def _heat(figure: Figure, axes: Axes, held: Holdings) -> None:
    columns = [client.counts for client in held.clients]
    names = [shown(name) for name in held.classes]
    if any(client.outside for client in held.clients):
        columns = [(*client.counts, client.outside) for client in held.clients]
        names.append("none of them")
    table = np.array(columns, dtype=np.float64)
    image = axes.imshow(
        np.where(table > 0, table, np.nan), aspect="auto", cmap="YlGnBu", interpolation="nearest",
        vmin=0,
    )  # fmt: skip
    kind = "true class" if held.by_truth else "given label (the true classes are not known)"
    axes.set_xlabel(f"{kind}; white: none", color=INK)
    axes.set_ylabel("client", color=INK)
    if len(names) <= NAMED:
        axes.set_xticks(range(len(names)), names)
        if any(len(name) > 2 for name in names):
            for label in axes.get_xticklabels():
                label.set(rotation=45, ha="right", rotation_mode="anchor")
    if len(held.clients) <= NAMED:
        axes.set_yticks(range(len(held.clients)), [_short(client.name) for client in held.clients])
    axes.tick_params(colors=INK, length=2)
    bar = figure.colorbar(image, ax=axes, location="left", pad=0.02, shrink=0.6, aspect=30)
    bar.set_label("samples", color=INK)


def _bars(axes: Axes, held: Holdings) -> None:
    known = [client.level if client.wrong is None else client.wrong for client in held.clients]
    for kind in dict.fromkeys(client.kind for client in held.clients):
        rows = [row for row, client in enumerate(held.clients) if client.kind == kind]
        shares = [known[row] or 0.0 for row in rows]
        # Clients without noise have no bar, so they need no entry.
        label = kind if any(shares) else None
        axes.barh(rows, shares, height=0.8, color=COLOURS.get(kind, UNKNOWN), label=label)
    made = [(row, c.level) for row, c in enumerate(held.clients) if c.level and c.level != c.wrong]
    if made:
        axes.plot(
            [level for _, level in made],
            [row for row, _ in made],
            "|",
            color=VERMILLION,
            markersize=6,
            label="noise level",
        )
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))
    unknown = all(share is None for share in known)
    axes.set_xlabel("wrong labels: not known" if unknown else "wrong labels", color=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=INK, length=2)
    axes.tick_params(axis="y", length=0, labelleft=False)
    if axes.get_legend_handles_labels()[0]:
        above = (0.5, 1.0)
        axes.legend(loc="lower center", bbox_to_anchor=above, frameon=False, ncols=2, fontsize=8.5)


def _short(name: str) -> str:
    name = shown(name)
    return name if len(name) <= 18 else f"{name[:17]}…"

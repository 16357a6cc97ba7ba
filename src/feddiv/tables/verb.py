"""`feddiv.table`: rows in, one text out."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal

from feddiv.core.did_you_mean import did_you_mean
from feddiv.core.errors import UserError
from feddiv.tables.formats import comma_separated, latex, markdown
from feddiv.tables.gather import gather
from feddiv.tables.layouts import Grid, by_seed, long, wide
from feddiv.tables.rows import Row
from feddiv.tables.summary_table import ACCURACIES, SummaryTable, legend, summed_up

Format = Literal["md", "csv", "latex"]
FORMATS: Final = ("md", "csv", "latex")
# all: every measure; a measure: methods × settings, as papers print it; seeds: seed by seed.
SHOWN: Final = ("all", *ACCURACIES, "filter F1", "seeds")


def table_of(
    places: Iterable[str | Path], kind: str = "md", *, paper: bool = False, show: str = "all"
) -> str:
    """The table of what is in these files and folders."""
    return written(summed_up(gather(places)), kind, paper=paper, show=show)


def written_rows(rows: Iterable[Row], *, paper: bool = False, show: str = "all") -> str:
    """The table of these rows as Markdown."""
    return written(summed_up(rows), "md", paper=paper, show=show)


def written(table: SummaryTable, kind: str, *, paper: bool, show: str) -> str:
    """A table in one of the formats."""
    if kind not in FORMATS:
        raise UserError(
            f"--format {kind}: unknown{did_you_mean(kind, FORMATS)}; there are {', '.join(FORMATS)}"
        )
    if kind == "csv":
        return comma_separated(table)
    grid = _grid(table, show, paper=paper)
    notes = [] if show == "seeds" else legend(table)
    if paper and any(line.published for line in table.lines):
        notes.append("Published: best test accuracy in percent, mean±std of five trials.")
    return markdown(grid, notes) if kind == "md" else latex(grid, notes)


def _grid(table: SummaryTable, show: str, *, paper: bool) -> Grid:
    if show not in SHOWN:
        raise UserError(
            f"--show {show}: unknown{did_you_mean(show, SHOWN)}; there are {', '.join(SHOWN)}"
        )
    if show == "all":
        return long(table, paper=paper)
    return by_seed(table) if show == "seeds" else wide(table, show, paper=paper)

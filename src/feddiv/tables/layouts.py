"""A table as rows of cells: long, with all measures; wide, with one; or seed by seed."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Final

from feddiv.tables.compare import Verdict
from feddiv.tables.published import Number
from feddiv.tables.summary_table import ACCURACIES, MEASURES, Line, Measured, SummaryTable

NOTHING: Final = "–"
MARKS: Final[dict[Verdict | None, str]] = {"level": "°", "too few seeds": "?"}


@dataclass(frozen=True)
class Cell:
    """A text, perhaps bold; `mark` comes after it."""

    text: str
    bold: bool = False
    mark: str = ""


@dataclass(frozen=True)
class Grid:
    """Columns and rows, ready to be written in any format."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    words: int = 2  # columns at the left that hold words


def long(table: SummaryTable, *, paper: bool = False) -> Grid:
    """A row for each setting and method."""
    columns = ["setting", "method", "seeds", *MEASURES, *(["published best"] if paper else [])]
    rows = []
    for line in table.lines:
        cells = [Cell(line.setting), _method(line), Cell(seeds_of(line.seeds))]
        cells += [_measured(table, line, key) for key in MEASURES]
        rows.append([*cells, *([_published(line.published)] if paper else [])])
    return Grid(columns, rows)


def wide(table: SummaryTable, measure: str, *, paper: bool = False) -> Grid:
    """A row for each method, a column for each setting, as papers print it."""
    rows = []
    for method in table.methods:
        lines = [line for line in table.lines if line.method == method]
        cells = [_method(lines[0])]
        for setting in table.settings:
            line = table.line(setting, method)
            if line is None:
                cells += [Cell(NOTHING)] * (1 + paper)
                continue
            cells.append(_measured(table, line, measure))
            cells += [_published(line.published)] if paper else []
        rows.append(cells)
    columns = [
        each for name in table.settings for each in (name, *(["published"] if paper else []))
    ]
    return Grid([f"method, {measure}", *columns], rows, words=1)


def by_seed(table: SummaryTable) -> Grid:
    """The last ten rounds of every seed, then means."""
    seeds = seeds_of(sorted({seed for line in table.lines for seed in line.seeds}))
    columns = [
        "setting",
        "method",
        f"mean of the last ten rounds, seeds {seeds}",
        "mean",
        "best on test, mean",
        "filter F1",
        "flagged",
        "wrong",
    ]
    rows = []
    for line in table.lines:
        last = line.measured["last ten"]
        numbers = [_mean([row.number(key) for row in line.rows]) for key in ("flagged", "wrong")]
        rows.append(
            [
                Cell(line.setting),
                Cell(line.method),
                Cell(" ".join(f"{value:.3f}" for value in last.values.values()) or NOTHING),
                Cell(_plain(last), bold=True),
                Cell(_plain(line.measured["best"])),
                Cell(_plain(line.measured["filter F1"])),
                *map(Cell, numbers),
            ]
        )
    return Grid(columns, rows)


def seeds_of(seeds: Sequence[int]) -> str:
    """Seeds in short.

    >>> seeds_of([30, 31, 32, 33]), seeds_of([0, 2]), seeds_of([7, 8])
    ('30 to 33', '0 2', '7 8')
    """
    if len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[-1] + 1)):
        return f"{seeds[0]} to {seeds[-1]}"
    return " ".join(map(str, seeds))


def _method(line: Line) -> Cell:
    return Cell(f"({line.method})" if line.yardstick else line.method)


def _published(number: Number | None) -> Cell:
    return Cell(NOTHING if number is None else str(number))


def _measured(table: SummaryTable, line: Line, key: str) -> Cell:
    found = line.measured[key]
    verdict = found.verdict
    if verdict == "too few seeds" and not _told(table, line.setting, key):
        verdict = None  # nobody here can be told apart: the legend says so once
    return Cell(_said(found, key), verdict == "best", MARKS.get(verdict, ""))


def _told(table: SummaryTable, setting: str, key: str) -> bool:
    here = [line.measured[key].verdict for line in table.lines if line.setting == setting]
    return any(verdict in ("level", "behind") for verdict in here)


def _said(found: Measured, key: str) -> str:
    if found.mean is None:
        return NOTHING
    factor, digits = (100, 1) if key in ACCURACIES else (1, 0) if key == "time" else (1, 3)
    spread = "" if found.std is None else f"±{found.std * factor:.{digits}f}"
    return f"{found.mean * factor:.{digits}f}{spread}{' s' if key == 'time' else ''}"


def _plain(found: Measured) -> str:
    return NOTHING if found.mean is None else f"{found.mean:.3f}"


def _mean(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{mean(known):.3f}" if known else NOTHING

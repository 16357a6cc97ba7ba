"""Tables as Markdown, LaTeX (booktabs) and CSV."""

import csv
import io
import re
from collections.abc import Sequence
from typing import Final

from feddiv.core.spreadsheets import cell as harmless
from feddiv.core.terminal import shown
from feddiv.tables.layouts import Cell, Grid
from feddiv.tables.summary_table import MEASURES, SummaryTable

_LATEX: Final = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "ρ": r"$\rho$",
    "τ": r"$\tau$",
    "ζ": r"$\zeta$",
    "α": r"$\alpha$",
    "×": r"$\times$",
    "–": "--",
    "°": r"$^{\circ}$",
}


def markdown(grid: Grid, notes: Sequence[str] = ()) -> str:
    """With a line of notes below, where there are any."""
    lines = [
        _row([_plain(name) for name in grid.columns]),
        _row(["---"] * len(grid.columns)),
        *(_row([_markdown(cell) for cell in row]) for row in grid.rows),
    ]
    below = ["", *(_plain(note) for note in notes)] if notes else []
    return "\n".join([*lines, *below])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _plain(text: str) -> str:
    return shown(text).replace("|", "\\|")


def _markdown(cell: Cell) -> str:
    text = _plain(cell.text)
    return (f"**{text}**" if cell.bold else text) + cell.mark


def latex(grid: Grid, notes: Sequence[str] = ()) -> str:
    """A tabular with rules of booktabs; what is the same as in the row above is left out."""
    kinds = "l" * grid.words + "r" * (len(grid.columns) - grid.words)
    lines = [
        rf"\begin{{tabular}}{{{kinds}}}",
        r"\toprule",
        _latex_row([_escaped(name) for name in grid.columns]),
        r"\midrule",
    ]
    before: Cell | None = None
    for row in grid.rows:
        cells = [_latex(cell) for cell in row]
        if grid.words > 1 and before is not None:
            if row[0] == before:
                cells[0] = ""
            else:
                lines.append(r"\addlinespace")
        before = row[0]
        lines.append(_latex_row(cells))
    lines += [r"\bottomrule", r"\end{tabular}"]
    return "\n".join([*lines, *(f"% {shown(note)}" for note in notes)])


def _latex_row(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _latex(cell: Cell) -> str:
    text = _escaped(cell.text)
    return (rf"\textbf{{{text}}}" if cell.bold else text) + _escaped(cell.mark)


def _escaped(text: str) -> str:
    return re.sub("|".join(map(re.escape, _LATEX)), lambda found: _LATEX[found[0]], shown(text))


def comma_separated(table: SummaryTable) -> str:
    """Numbers as they are, mean, standard deviation and verdict apart; for programs."""
    columns = ["setting", "method", "seeds", "dates"]
    for key in MEASURES:
        name = key.replace(" ", "_")
        columns += [f"{name}_mean", f"{name}_std", f"{name}_verdict"]
    columns += ["published_mean", "published_std"]
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    for line in table.lines:
        dates = sorted({row.date for row in line.rows})
        cells: list[object] = [harmless(line.setting), harmless(line.method)]
        cells += [" ".join(map(str, line.seeds)), harmless(" ".join(dates))]
        for key in MEASURES:
            found = line.measured[key]
            cells += [_number(found.mean), _number(found.std), found.verdict or ""]
        number = line.published
        cells += ["", ""] if number is None else [number.mean, _number(number.std)]
        writer.writerow(cells)
    return file.getvalue().rstrip("\n")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"

"""A table or figure of the paper made again: its runs, its table, its page."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from feddiv.core.errors import UserError
from feddiv.core.files import write_text
from feddiv.tables.studies import (
    Scale,
    Study,
    not_shown,
    only_cells,
    scale_of,
    study_of,
    sweep_for,
)
from feddiv.tables.study_page import study_page
from feddiv.tables.summary_table import summed_up
from feddiv.tables.sweep import Swept, sweep
from feddiv.tables.verb import written

REPRODUCED: Final = Path("reproduced")  # below it a folder for each scale, which studies share
FIGURES: Final = "figures"


@dataclass(frozen=True)
class Reproduced:
    """What was written."""

    text: str  # the table as Markdown
    page: Path
    tables: Path  # without suffix: .md, .csv, .tex


def folder_of(scale: str, out: Path | None) -> Path:
    """Where a scale's runs and results go."""
    return REPRODUCED / scale if out is None else out


def write_study(study: Study, scale: Scale, swept: Swept) -> Reproduced:
    """The table in all formats and the page of figures, of the runs that are finished."""
    if not swept.rows:
        raise UserError(f"{study.name}: no run is finished, so there is no table")
    summed = summed_up(swept.rows)
    home = swept.folder
    both = [written(summed, "md", paper=True, show=show) for show in ("best", "all")]
    missing = "".join(f"\n{line}." for line in not_shown(study, scale))
    text = f"{study.title}\nScale {scale.name}: {scale.description}\n\n{both[0]}{missing}\n"
    home.mkdir(parents=True, exist_ok=True)
    write_text(home / f"{study.name}.md", f"{text}\n{both[1]}\n")
    write_text(home / f"{study.name}.csv", written(summed, "csv", paper=True, show="all") + "\n")
    latex = written(summed, "latex", paper=True, show="best")
    write_text(home / f"{study.name}.tex", latex + "\n")
    file = home / f"{study.name}.html"
    write_text(file, study_page(study, scale, swept, summed, home / FIGURES / study.name))
    return Reproduced(text, file, home / study.name)


def reproduce(
    study: str,
    scale: str,
    *,
    methods: Sequence[str] | None = None,
    cells: Sequence[str] | None = None,
    seeds: str | None = None,
    out: Path | None = None,
    jobs: int | None = None,
    ray: str | None = None,
) -> tuple[Swept, Reproduced]:
    """Run what is left of a study at a scale, and write its table and its page."""
    wanted, size = only_cells(study_of(study), cells), scale_of(scale)
    given = sweep_for(wanted, size, methods, seeds)
    swept = sweep(given, out=folder_of(scale, out), jobs=jobs, ray=ray)
    return swept, write_study(wanted, size, swept)

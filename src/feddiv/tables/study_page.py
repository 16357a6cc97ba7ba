"""The page of a study: its table with the published cells, and its figures cell by cell."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from feddiv.core.terminal import shown
from feddiv.pages import Html, image, page, section, table, tag
from feddiv.reports.figures import save_figures
from feddiv.reports.record import read_runs
from feddiv.tables.layouts import Cell, Grid, long, wide
from feddiv.tables.studies import Scale, Study, not_shown
from feddiv.tables.study_figures import accuracy_by_round, against_zeta
from feddiv.tables.summary_table import SummaryTable, legend
from feddiv.tables.sweep import Swept
from feddiv.tables.sweep_file import slug


def study_page(study: Study, scale: Scale, swept: Swept, summed: SummaryTable, out: Path) -> str:
    """The page's text. Figures of single runs, of the first seed, go to `out` as files too."""
    folders = first_runs(swept)
    missing = not_shown(study, scale)
    parts: list[Html] = [
        section(
            "table",
            "Best test accuracy",
            _grid(wide(summed, "best", paper=True)),
            [tag("p", line, class_="note") for line in (*legend(summed), *missing)],
            note="In percent, ours beside what the paper has at its own scale.",
        ),
        section("all", "All measures", _grid(long(summed, paper=True))),
    ]
    zeta = against_zeta(summed)
    if zeta is not None:
        parts.append(section("zeta", "Against ζ", image(zeta, alt="Accuracy by ζ", kind="svg+xml")))
    for setting in summed.settings:
        parts.append(_cell(setting, study, summed, folders.get(setting, []), out))
    contents = {"table": "Table", "all": "All measures"}
    contents |= {slug(setting): setting for setting in summed.settings}
    return page(
        study.title,
        parts,
        subtitle=f"Scale {scale.name}: {scale.description}",
        contents=contents,
    )


def first_runs(swept: Swept) -> Mapping[str, list[Path]]:
    """Folders of the runs of each setting's first seed that has any."""
    found: dict[str, dict[int, list[Path]]] = {}
    for job, folder in swept.folders.items():
        found.setdefault(job.setting, {}).setdefault(job.seed, []).append(folder)
    return {setting: next(iter(seeds.values())) for setting, seeds in found.items()}


def _cell(
    setting: str, study: Study, summed: SummaryTable, folders: Sequence[Path], out: Path
) -> Html:
    curves = image(accuracy_by_round(summed, setting), alt="Accuracy by round", kind="svg+xml")
    drawn = [curves]
    if folders:
        place = out / slug(setting)
        files = save_figures(read_runs(folders), place)
        wanted = [f"{name}.svg" for name in study.figures]
        drawn += [
            image(file.read_bytes(), alt=file.stem, kind="svg+xml")
            for name in wanted
            for file in files
            if file.name == name
        ]
    note = "The mean over seeds, and from the least to the most of them."
    if folders:
        note += f" Figures of single runs are of one seed; all are in {shown(str(out))}."
    return section(slug(setting), setting, drawn, note=note)


def _grid(grid: Grid) -> Html:
    numbers = range(grid.words, len(grid.columns))
    return table(
        grid.columns, [[_html(cell) for cell in row] for row in grid.rows], numbers=numbers
    )


def _html(cell: Cell) -> Html:
    text = tag("b", cell.text) if cell.bold else tag("span", cell.text)
    return Html(text + tag("span", cell.mark)) if cell.mark else text

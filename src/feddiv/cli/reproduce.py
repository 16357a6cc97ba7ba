"""`feddiv reproduce`: the paper's tables and figures."""

from pathlib import Path
from typing import Annotated

import typer

from feddiv.cli.arguments import examples
from feddiv.cli.sweep import DryRun, Jobs, Quietly, Ray, list_failures, run_sweep
from feddiv.core.given_files import at_home

EXAMPLES = examples(
    "feddiv reproduce table1 --scale tiny --methods fedavg,feddiv-paper,feddiv --seeds 1",
    "feddiv reproduce table1 --scale features --cells cifar10-iid-0.8-0.5",
    "feddiv reproduce table2 --scale paper --dry-run",
    "feddiv reproduce figure-filter --seeds 30-32",
)


def reproduce(
    study: Annotated[
        str,
        typer.Argument(
            metavar="TABLE|FIGURE",
            help="table1 to table5, figure-filter, figure-posterior, figure-stability, "
            "figure-heatmaps or figure-zeta.",
        ),
    ],
    scale: Annotated[
        str, typer.Option(help="tiny (digits), laptop, features, or paper (a GPU's work).")
    ] = "tiny",
    methods: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Only these methods.", show_default="all of the table"),
    ] = None,
    cells: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="Only these cells, as cifar10-iid-0.8-0.5.",
            show_default="all of the table",
        ),
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option(
            metavar="N|A,B|A-B",
            help="A number: so many of the scale's seeds; a list or a range: these seeds.",
            show_default="all of the scale",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Runs and results; without it, reproduced/SCALE."),
    ] = None,
    rows: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.jsonl",
            help="Where result rows are kept; without it, rows.jsonl in DIR.",
            show_default=False,
        ),
    ] = None,
    keep: Annotated[
        str, typer.Option(help="runs, or rows: a run's folder goes when its row is kept.")
    ] = "runs",
    jobs: Jobs = None,
    dry_run: DryRun = False,
    ray: Ray = None,
    quiet: Quietly = False,
) -> None:
    """Make a table or figure of the paper again, its published numbers beside ours.

    Runs that are finished are not repeated, also when another table needs them.
    """
    from feddiv.tables.reproduce import folder_of, write_study
    from feddiv.tables.studies import (
        cost_lines,
        not_shown,
        only_cells,
        scale_of,
        study_of,
        sweep_for,
    )

    wanted, size = only_cells(study_of(study), _names(cells)), scale_of(scale)
    kept = None if rows is None else at_home(rows)
    given = sweep_for(wanted, size, _names(methods), seeds, kept, keep)
    for line in not_shown(wanted, size):
        typer.echo(f"feddiv: {line}", err=True)
    swept = run_sweep(
        given,
        out=folder_of(scale, None if out is None else at_home(out)),
        jobs=jobs,
        dry_run=dry_run,
        ray=ray,
        quiet=quiet,
        again=f"feddiv reproduce {study} --scale {scale} with the same options",
    )
    if dry_run:
        for line in cost_lines(swept.plan.left, size):
            typer.echo(line)
        return
    if swept.rows:
        made = write_study(wanted, size, swept)
        typer.echo(f"\n{made.text}")
        typer.echo(f"Table      {made.tables}.md, .csv, .tex")
        typer.echo(f"Figures    {made.page}")
    list_failures(swept)


def _names(given: str | None) -> list[str] | None:
    """What a list with commas names; None where there is none."""
    if given is None:
        return None
    return [each.strip() for each in given.split(",") if each.strip()]

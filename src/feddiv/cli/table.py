"""`feddiv table`: what runs have in common, in a table."""

from pathlib import Path
from typing import Annotated

import typer

from feddiv.cli.arguments import OneOf, examples

FORMATS = ("md", "csv", "latex")
SHOWN = ("all", "best", "last", "last ten", "filter F1", "seeds")
EXAMPLES = examples(
    "feddiv table sweeps/mine",
    "feddiv table sweeps/mine --paper --show best --format latex",
    "feddiv table runs sweeps/mine/rows.jsonl --format csv",
)


def table(
    places: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR|FILE.jsonl...",
            help="Folders of sweeps or of runs, and files of result rows.",
        ),
    ],
    kind: Annotated[
        str,
        typer.Option("--format", click_type=OneOf(FORMATS), help="Markdown, CSV or LaTeX."),
    ] = "md",
    paper: Annotated[
        bool, typer.Option("--paper", help="Put the number that the paper has beside ours.")
    ] = False,
    show: Annotated[
        str,
        typer.Option(
            click_type=OneOf(SHOWN),
            help="all: a line for each setting and method; a measure: methods × settings, as "
            "papers print it; seeds: seed by seed.",
        ),
    ] = "all",
) -> None:
    """Print mean±std over seeds: best, last and last-ten accuracy, filter F1, time."""
    from feddiv.tables.verb import table_of

    typer.echo(table_of(places, kind, paper=paper, show=show))

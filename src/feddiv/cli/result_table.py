"""The end of a run, in a table that fits a small terminal."""

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from feddiv.runs.results import Results
from feddiv.runs.run import Run
from feddiv.runs.run_folder import PICTURE


def print_summary(run: Run) -> None:
    """All runs of an experiment side by side, and where they are."""
    results = Results.of(run)
    console = Console(highlight=False)
    console.print(results.heading, soft_wrap=True, markup=False)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    first, *others = results.columns
    table.add_column(first)
    for column in others:
        table.add_column(column, justify="right", no_wrap=True)
    for place, (name, *cells) in enumerate(results.rows):
        table.add_row(Text(name, style="" if place else "bold"), *cells)
    console.print(table)
    for line in (
        *results.notes,
        f"Written to {run.folder}",
        f"Picture    {run.folder / PICTURE}",
        f"Model      {run.folder / 'model.safetensors'}",
    ):
        console.print(line, soft_wrap=True, markup=False)

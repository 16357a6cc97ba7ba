"""The end of a run, in a table that fits a small terminal."""

from shlex import quote

from rich import box
from rich.table import Table
from rich.text import Text

from feddiv.audits.labels_file import LABELS
from feddiv.audits.overview import audits_in_short
from feddiv.audits.runs import CLIENTS
from feddiv.cli.audit_table import print_sites
from feddiv.cli.consoles import output
from feddiv.runs.curve import LAST, after_warmup, rise
from feddiv.runs.extension import can_go_on
from feddiv.runs.results import Results, titled
from feddiv.runs.run import Run
from feddiv.runs.run_folder import PICTURE, REPORT


def print_summary(run: Run) -> None:
    """All runs of an experiment side by side, and where they are."""
    results = Results.of(run)
    console = output()
    console.print(results.heading, soft_wrap=True, markup=False)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    first, *others = results.columns
    table.add_column(first, overflow="fold")  # a name is never cut: people copy it
    for column in others:
        table.add_column(column, justify="right", no_wrap=True)
    for place, (name, *cells) in enumerate(results.rows):
        table.add_row(Text(name, style="" if place else "bold"), *cells)
    console.print(table)
    for line in results.notes:
        console.print(line, soft_wrap=True, markup=False)
    audits = audits_in_short(run)
    if audits:
        print_sites(console, audits)
    for line in (
        *_rising(run),
        f"Written to {run.folder}",
        f"Report     {run.folder / REPORT}",
        f"Picture    {run.folder / PICTURE}",
        f"Model      {run.folder / 'model.safetensors'}",
        *_lists(run),
    ):
        console.print(line, soft_wrap=True, markup=False)


def _lists(run: Run) -> list[str]:
    """Where the clients' lists are, and how to have pages of them."""
    if not (run.folder / CLIENTS).is_dir():
        return []
    return [
        f"Labels     {run.folder / CLIENTS / '*' / LABELS}",
        f"           as pages: feddiv audit {quote(str(run.folder))}",
    ]


def _rising(run: Run) -> list[str]:
    """A line where more rounds would help, and how to have them."""
    measure, rises = run.experiment.evaluation.measure, []
    for name, each in titled(run).items():
        risen = rise(after_warmup(each.rounds, measure))
        if risen is not None:
            rises.append(f"{name} ({100 * risen:.1f} points over its last {LAST} measured rounds)")
    if not rises:
        return []
    more = 2 * run.experiment.rounds
    runs = (run, *run.against.values())
    goes_on = all(can_go_on(each.experiment, more) for each in runs)
    way = f"feddiv resume {quote(str(run.folder))} rounds={more}" if goes_on else "run it anew"
    return [f"Still rising: {', '.join(rises)}. For more: {way}"]

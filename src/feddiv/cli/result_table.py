"""The end of a run, in a table that fits a small terminal."""

from shlex import quote

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from feddiv.cli.progress import duration
from feddiv.config.sections import HeldOut
from feddiv.report.picture import PICTURE
from feddiv.runs.curve import LAST, after_warmup, rise
from feddiv.runs.experiment import title
from feddiv.runs.extension import can_go_on
from feddiv.runs.run import Run

CENTRAL = ("Test accuracy: mean of the last ten rounds, best round on the test set, last round.",)
HELD_OUT = (
    "Accuracy on samples that clients keep out of training, against their given labels: mean of",
    "the last ten rounds, best round, last round. Believed: against those labels only that the",
    "method believes, mean of the last ten rounds.",
)


def print_summary(run: Run) -> None:
    """All runs of an experiment side by side, and where they are."""
    console = Console(highlight=False)
    console.print(_heading(run), soft_wrap=True, markup=False)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("method")
    held_out = isinstance(run.experiment.evaluation, HeldOut)
    believed = ["believed"] if held_out else []
    for column in ("last ten", "best", "last", *believed, "filter F1", "flagged", "time"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_row(Text(title(run.experiment), style="bold"), *_cells(run))
    for name, rival in run.against.items():
        table.add_row(Text(name), *_cells(rival))
    console.print(table)
    for line in (
        *(HELD_OUT if held_out else CENTRAL),
        *_rising(run),
        f"Written to {run.folder}",
        f"Picture    {run.folder / PICTURE}",
        f"Model      {run.folder / 'model.safetensors'}",
    ):
        console.print(line, soft_wrap=True, markup=False)


def _rising(run: Run) -> list[str]:
    """A line where more rounds would help, and how to have them."""
    measure, rises = run.experiment.evaluation.measure, []
    for name, each in {title(run.experiment): run, **run.against}.items():
        risen = rise(after_warmup(each.rounds, measure))
        if risen is not None:
            rises.append(f"{name} ({100 * risen:.1f} points over its last {LAST} rounds)")
    if not rises:
        return []
    more = 2 * run.experiment.rounds
    runs = (run, *run.against.values())
    goes_on = all(can_go_on(each.experiment, more) for each in runs)
    way = f"feddiv resume {quote(str(run.folder))} rounds={more}" if goes_on else "run it anew"
    return [f"Still rising: {', '.join(rises)}. For more: {way}"]


def _heading(run: Run) -> str:
    experiment, summary = run.experiment, run.summary
    told = summary.get("assessed_clients")  # where assessments stay with the clients
    clients = len(np.unique(run.assessment["client"])) if told is None else told
    wrong = summary.get("wrong")
    labels = "" if wrong is None else f", {wrong:.1%} of the given labels wrong"
    return (
        f"{summary['dataset']}, {clients} clients, {experiment.rounds} rounds, "
        f"seed {experiment.seed}{labels}"
    )


def _cells(run: Run) -> list[str]:
    summary, measure = run.summary, run.experiment.evaluation.measure
    quality = summary["filter"] or {}
    believed = "mean_last10_believed_accuracy"
    return [
        _percent(summary[f"mean_last10_{measure}"]),
        _percent(summary[f"best_{measure}"]),
        _percent(summary[f"last_{measure}"]),
        *([_percent(summary[believed])] if believed in summary else []),
        "-" if quality.get("f1") is None else f"{quality['f1']:.3f}",
        _percent(summary["flagged"]),
        duration(summary["seconds"]),
    ]


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"

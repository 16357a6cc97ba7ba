"""What a draw looks like, on the screen."""

import json
from pathlib import Path
from statistics import median

from rich.table import Table
from rich.text import Text

from feddiv.cli.consoles import output
from feddiv.cli.progress import progress
from feddiv.config.reading import Overrides, load_experiment
from feddiv.core.given_files import at_home
from feddiv.core.terminal import shown
from feddiv.reports.holdings import Holding, Holdings, holdings
from feddiv.reports.holdings_picture import save_holdings
from feddiv.runs.prepare import drawn

LARGEST = 3  # classes that are named


def describe(source: str, overrides: Overrides, out: Path | None, *, as_json: bool) -> None:
    """Make the draw of an experiment and show it, without training."""
    with progress(quiet=False) as watcher:
        notes: list[str] = []
        experiment = load_experiment(source, overrides, note=notes.append)
        held = holdings(*drawn(experiment, watcher=watcher))
        for note in notes:
            watcher.note(note)
    if out is not None:
        save_holdings(held, at_home(out))
    if as_json:
        print(json.dumps(held.as_dict(), indent=2, ensure_ascii=False))
        return
    console = output()
    console.print(_table(held))
    for line in _summary(held):
        console.print(line, markup=False, soft_wrap=True)
    if out is not None:
        console.print(f"Picture    {out}", markup=False, soft_wrap=True)


def _table(held: Holdings) -> Table:
    """A row for each client; where the screen is narrow, the list of classes is cut short."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    kept_out = ("held out",) if held.held_out else ()
    for heading in ("client", "samples", *kept_out, "classes", "noise", "level", "wrong"):
        text = heading in ("client", "noise")
        table.add_column(heading, justify="left" if text else "right", no_wrap=True)
    table.add_column("largest")
    for client in held.clients:
        table.add_row(
            Text(shown(client.name)),
            f"{client.samples:,}",
            *(f"{client.held_out:,}" for _ in kept_out),
            str(client.classes),
            client.kind or "?",
            _share(client.level),
            _share(client.wrong),
            Text(shown(_largest(client, held.classes)), no_wrap=True, overflow="ellipsis"),
        )
    return table


def _largest(client: Holding, classes: tuple[str, ...]) -> str:
    order = sorted(range(len(classes)), key=lambda label: -client.counts[label])
    most = [f"{classes[n]}: {client.counts[n]}" for n in order[:LARGEST] if client.counts[n]]
    outside = [f"none of them: {client.outside}"] if client.outside else []
    return ", ".join(most + outside)


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _summary(held: Holdings) -> list[str]:
    sizes = sorted(client.samples for client in held.clients)
    middle = f"{median(sizes):,.1f}".removesuffix(".0")
    kind = "true classes" if held.by_truth else "given labels, for the true classes are not known"
    lines = [
        "",
        f"{held.dataset}: {held.samples:,} samples at {len(sizes)} clients ({sizes[0]:,} to "
        f"{sizes[-1]:,}, median {middle}), {held.unheld:,} samples at none",
        f"Classes are counted by {kind}.",
    ]
    if held.held_out:
        lines.append(f"Kept out of training: {held.held_out:,} samples more")
    if held.wrong is not None:
        lines.append(f"Wrong labels: {held.wrong:.1%}")
    return [*lines, f"Draw       {held.draw}"]

"""Decisions about labels on the command line: merged, taken to tools, and brought back."""

from collections.abc import Collection, Sequence
from itertools import islice
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from feddiv.audits.exchange.site_files import export, import_file, site_audits
from feddiv.cli.consoles import output
from feddiv.cli.progress import progress
from feddiv.core.terminal import NAME, shown
from feddiv.data.corrections import Conflict, DecisionKind, Review, agreements, merge_files

MOST = 20  # conflicts on a terminal, and decisions of each
MOST_LINES = 50  # about reviewers, and about every two of them


def print_merge(files: Sequence[Path], out: Path) -> None:
    """Merge, and say how far the reviewers agree and where they do not."""
    console = output()
    found = merge_files(files, out)
    review = Review.of(found.decisions)
    for line in found.notes[:MOST_LINES]:
        console.print(line, soft_wrap=True, markup=False)
    if (left := len(found.notes) - MOST_LINES) > 0:
        console.print(f"And {left:,} more such lines.", soft_wrap=True)
    for reviewer, decisions in islice(review.by_reviewer.items(), MOST_LINES):
        kinds = [each.decision for each in decisions.values()]
        confirmed, corrected = kinds.count(DecisionKind.CONFIRM), kinds.count(DecisionKind.CORRECT)
        line = f"{confirmed:,} confirmed, {corrected:,} corrected"
        console.print(f"Reviewer   {shown(reviewer, NAME)}: {line}", soft_wrap=True, markup=False)
    if (left := len(review.by_reviewer) - MOST_LINES) > 0:
        console.print(f"Reviewer   and {left:,} more", soft_wrap=True)
    pairs = sorted(agreements(found.decisions), key=lambda each: -each.samples)
    for each in pairs[:MOST_LINES]:
        one, other = (shown(name, NAME) for name in each.reviewers)
        kappa = "not defined" if each.kappa is None else f"{each.kappa:.2f}"
        line = f"{each.same:,} of {each.samples:,} labels alike, Cohen's κ {kappa}"
        console.print(f"Agreement  {one} and {other}: {line}", soft_wrap=True, markup=False)
    if len(pairs) > MOST_LINES:
        console.print("Agreement  other pairs, who judged less, are not shown", soft_wrap=True)
    if review.conflicts:
        _print_conflicts(console, review.conflicts)
    line = f"{len(review.conflicts):,}" + (
        ", to be settled by feddiv review" * bool(review.conflicts)
    )
    console.print(f"Conflicts  {line}", soft_wrap=True, markup=False)
    console.print(f"Merged     {out}", soft_wrap=True, markup=False)


def _print_conflicts(console: Console, conflicts: Sequence[Conflict]) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("sample", "given", "decisions"):
        table.add_column(column)
    for each in conflicts[:MOST]:
        said = ", ".join(
            f"{shown(who, NAME)}: {shown(decision.label, NAME)}"
            for who, decision in islice(each.decisions.items(), MOST)
        )
        said += f", and {len(each.decisions) - MOST:,} more" * (len(each.decisions) > MOST)
        row = (shown(each.sample, NAME), shown(each.given_label, NAME), said)
        table.add_row(*map(Text, row))
    console.print(table)
    if (left := len(conflicts) - MOST) > 0:
        console.print(f"And {left:,} more.")


def print_export(
    folder: Path, tool: str, worst: int | None, prefix: str | None, allow: Collection[str]
) -> None:
    """Write the files of every site, and say where."""
    console = output()
    with progress(quiet=False) as watcher:
        found = site_audits(folder, watcher, allow)
    total, files = 0, [folder]
    for place, audit in found:
        count, files = export(audit, place, tool, worst, prefix)
        total += count
    where = (
        files if len(found) == 1 else [files[0].parent.parent / "*" / each.name for each in files]
    )
    console.print(f"Exported   {total:,} labels of {len(found)} sites", soft_wrap=True)
    for each in where:
        console.print(f"File       {each}", soft_wrap=True, markup=False)


def print_import(folder: Path, file: Path, reviewer: str | None, *, confirm: bool) -> None:
    """Add the decisions of a tool's file, and say how many."""
    console = output()
    found = import_file(folder, file, reviewer, confirm=confirm)
    for line in found.notes:
        console.print(line, soft_wrap=True, markup=False)
    line = f"{found.confirmed:,} labels confirmed, {found.corrected:,} corrected"
    line += f", {found.others:,} without a label" if found.others else ""
    line += f"; {found.known:,} were there before" if found.known else ""
    console.print(f"Imported   {line}", soft_wrap=True, markup=False)
    console.print(f"File       {found.file}", soft_wrap=True, markup=False)

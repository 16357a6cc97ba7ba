"""The sites of an audit in a table that fits a small terminal."""

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from feddiv.audits.label_audit import LabelAudit
from feddiv.audits.overview import COLUMNS, site_rows, worst_sites


def print_sites(console: Console, audits: Sequence[LabelAudit]) -> None:
    """One line for each site, of many sites for the noisiest."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for place, column in enumerate(COLUMNS):
        if 0 < place < len(COLUMNS) - 1:
            table.add_column(column, justify="right", no_wrap=True)
        else:
            table.add_column(column, overflow="fold")
    chosen = worst_sites(audits)
    for row in site_rows(chosen):
        table.add_row(*map(Text, row))
    console.print(table)
    if left := len(audits) - len(chosen):
        line = f"And {left:,} more, of which fewer labels look wrong."
        console.print(line, soft_wrap=True, markup=False)

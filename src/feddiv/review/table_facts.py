"""What a table knows of its rows beside samples and labels, for whoever judges a label."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from feddiv.core.terminal import shown
from feddiv.data.data_options import DataOptions
from feddiv.data.sources.table_columns import roles_of
from feddiv.data.sources.table_files import read_table

MOST: Final = 40  # columns
LONGEST: Final = 300  # characters of a value


@dataclass(frozen=True, eq=False)
class TableFacts:
    """Columns that are no samples, labels or features, by what samples are called."""

    columns: tuple[str, ...]
    rows: Mapping[str, tuple[str, ...]]

    def of(self, name: str) -> list[tuple[str, str]]:
        """(column, value) of a sample, where there is a value."""
        values = self.rows.get(name, ())
        return [pair for pair in zip(self.columns, values, strict=False) if pair[1]]


def table_facts(options: DataOptions, samples: tuple[str, ...]) -> TableFacts | None:
    """Of the table that these options name; `samples` are the columns that samples are made of.

    None where there is nothing else but labels.
    """
    assert options.path is not None
    table = read_table(options.path.expanduser())
    roles = roles_of(table, options.columns)
    used = {*samples, roles["label"]}
    others = [name for name in table.names if name not in used and not table.lists(name)][:MOST]
    if not others:
        return None
    values = [[shown(value, LONGEST) for value in column] for column in table.texts(others)]
    rows = list(zip(*values, strict=True))
    image = roles.get("image")
    if image is not None and image in samples:  # images are called by their paths
        keys = [shown(name) for name in table.texts([image])[0]]
    else:
        keys = [str(table.number(row)) for row in range(len(rows))]
    return TableFacts(tuple(others), dict(zip(keys, rows, strict=True)))

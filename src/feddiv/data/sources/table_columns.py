"""Which column of a table is what."""

from feddiv.core.errors import UserError
from feddiv.data.data_options import USUAL_COLUMNS, Columns
from feddiv.data.images.listing import some
from feddiv.data.sources.table_cells import Table


def roles_of(table: Table, columns: Columns) -> dict[str, str]:
    """The column of every role that is there: the one that is named, else the usual one."""
    roles: dict[str, str] = {}
    for role, usual in USUAL_COLUMNS.items():
        wanted = getattr(columns, role)
        if wanted is not None and wanted not in table.names:
            raise table.malformed(
                f"has no column {wanted!r} (data.columns.{role}), only {some(table.names, 20)}"
            )
        found = [wanted] if wanted is not None else [n for n in usual if n in table.names]
        if found:
            roles[role] = found[0]
    for role, column in roles.items():
        twin = next((other for other in roles if roles[other] == column and other != role), None)
        if twin is not None:
            raise table.malformed(f"column {column!r} cannot be both {role} and {twin}")
    if "label" not in roles:
        raise table.malformed(
            f"has no column 'label'; set data.columns.label to one of {some(table.names, 20)}"
        )
    return roles


def said_of(table: Table, roles: dict[str, str], features: list[str]) -> str:
    """Nobody should wonder what was learned from."""
    used = {*features, *roles.values()}
    left = [name for name in table.names if name not in used]
    line = f"features are {len(features):,} of {table.title}'s columns ({some(features, 8)})"
    return f"{line}; left out: {some(left, 8) if left else 'none'}"


def feature_columns(table: Table, roles: dict[str, str], columns: Columns) -> list[str]:
    """Those that are named, or all that are left and hold numbers."""
    left = [name for name in table.names if name not in roles.values()]
    wanted = columns.features
    if isinstance(wanted, str):
        named = [wanted] if wanted in left else [n for n in left if n.startswith(wanted)]
        if not named:
            raise table.malformed(
                f"no column is called, or begins with, {wanted!r} (data.columns.features); there "
                f"are {some(left, 20)}"
            )
        return named
    if wanted is not None:
        for name in wanted:
            if name not in left:
                raise table.malformed(f"has no column {name!r} (data.columns.features)")
        if not wanted:
            raise UserError("data.columns.features=[]: name at least one column")
        return list(wanted)
    numbers = [name for name in left if table.numeric(name)]
    lists = [name for name in left if table.lists(name)]
    if len(lists) + bool(numbers) > 1:
        raise table.malformed(
            f"has more than one kind of features ({some(lists + numbers, 6)}); set "
            "data.columns.features"
        )
    if not lists and not numbers:
        raise table.malformed(
            "has neither a column 'image' nor columns of numbers; set data.columns.image or "
            "data.columns.features"
        )
    return lists or numbers

"""Which column of a table is what."""

from typing import Final, Literal

from feddiv.core.errors import UserError
from feddiv.data.data_options import USUAL_COLUMNS, Columns, DataOptions
from feddiv.data.images.listing import some
from feddiv.data.sources.table_cells import Table
from feddiv.data.texts.texts import NoText, Texts, usable

SampleKind = Literal["image", "text", "features"]
KINDS: Final[tuple[SampleKind, ...]] = ("image", "text", "features")


def roles_of(table: Table, columns: Columns) -> dict[str, str]:
    """The column of every role that is there: the one that is named, else the usual one."""
    roles: dict[str, str] = {}
    # A column called text is often something else, and gives way to whoever says so.
    claimed = {name for _, name in columns if isinstance(name, str)}
    for role, usual in USUAL_COLUMNS.items():
        wanted = getattr(columns, role)
        if wanted is not None and wanted not in table.names:
            raise table.malformed(
                f"has no column {wanted!r} (data.columns.{role}), only {some(table.names, 20)}"
            )
        there = [name for name in usual if name in table.names]
        if role == "text":
            there = [name for name in there if name not in claimed]
        found = wanted if wanted is not None else next(iter(there), None)
        if found is not None:
            roles[role] = found
    for role, column in roles.items():
        twin = next((other for other in roles if roles[other] == column and other != role), None)
        if twin is not None:
            raise table.malformed(f"column {column!r} cannot be both {role} and {twin}")
    if "label" not in roles:
        raise table.malformed(
            f"has no column 'label'; set data.columns.label to one of {some(table.names, 20)}"
        )
    return roles


def sample_kind(table: Table, roles: dict[str, str], options: DataOptions) -> SampleKind:
    """What samples are made of: what the user names, else what the table has.

    A column called text may be a remark beside features: without an encoder it counts only where
    there is nothing else.
    """
    columns = options.columns
    named = [kind for kind in KINDS if getattr(columns, kind) is not None]
    if len(named) > 1:
        raise UserError(f"data.columns: give {' or '.join(named)}, not both")
    if named:
        return named[0]
    if options.encoder is None:
        if "image" in roles:
            return "image"
        others = [name for name in table.names if name not in roles.values()]
        numbers = any(table.numeric(name) or table.lists(name) for name in others)
        return "text" if "text" in roles and not numbers else "features"
    if "image" in roles and "text" in roles:
        raise table.malformed(
            f"has a column of images ({roles['image']}) and one of texts ({roles['text']}); set "
            "data.columns.image or data.columns.text"
        )
    return next((kind for kind in KINDS if kind in roles), "features")


def column_texts(table: Table, column: str) -> Texts:
    """The texts of a column, none of them empty."""
    (cells,) = table.texts([column])

    def text(row: int) -> str:
        table.check_utf8(column, cells[row], row)
        try:
            return usable(cells[row])
        except NoText as problem:
            raise table.malformed(f"{column}: {problem}", row) from None

    return Texts.of(text(row) for row in range(len(cells)))


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
            "has neither a column 'image' or 'text' nor columns of numbers; set "
            "data.columns.image, data.columns.text or data.columns.features"
        )
    return lists or numbers

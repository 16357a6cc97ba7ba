"""What there is to choose from, with one line on each."""

from collections.abc import Callable, Iterable, Mapping

from rich.console import Console
from rich.table import Table
from rich.text import Text

from feddiv.cli.consoles import output
from feddiv.core.errors import UserError
from feddiv.data import NOISES, PARTITIONS, SOURCES
from feddiv.encoders.registry import ENCODERS, FORMS
from feddiv.methods.registry import (
    METHODS,
    default_variant,
    full_name,
    method_class,
    split_name,
)
from feddiv.nets import NETS
from feddiv.presets import presets

Rows = Mapping[str, str]


def _methods(names: Iterable[str] = METHODS) -> Rows:
    """Every method with its paper, and after it every variant under its name."""
    rows = {}
    for name in names:
        method = method_class(name, "list methods")
        for variant, of in method.variants.items():
            rows[full_name(name, variant)] = of.summary
        default = default_variant(name)
        same = "" if default == "default" else f"\n= {name}-{default}, {rows[name]}"
        paper = f" ({method.paper})" if method.paper else ""
        rows[name] = f"{method.summary}{paper}{same}"
    return rows


def _first_line(kind: type) -> str:
    return (kind.__doc__ or "").strip().splitlines()[0]


LISTS: Mapping[str, Callable[[], Rows]] = {
    "methods": _methods,
    "datasets": lambda: {name: source.summary for name, source in SOURCES.items()},
    "partitions": lambda: {name: _first_line(kind) for name, kind in PARTITIONS.items()},
    "noise": lambda: {name: _first_line(kind) for name, kind in NOISES.items()},
    "models": lambda: {name: net.summary for name, net in NETS.items()},
    "encoders": lambda: {name: each.summary for name, each in ENCODERS.items()},
    "presets": presets,
}


# Where a name may also be the import path of something of one's own, or a file.
OWN: Rows = {
    "methods": "package.module:Class is one of your own (docs/own-method.md)",
    "models": "package.module:factory is one of your own (docs/nets.md)",
    "encoders": "; ".join(f"{form} is {each.summary}" for form, each in FORMS.items())
    + " (docs/encoders.md)",
}


def print_lists(kind: str | None, name: str | None = None) -> None:
    """One list, or all of them under their names; of methods also a single one."""
    console = output()
    if name is not None:
        if kind != "methods":
            raise UserError(f"list {kind} {name}: only methods can be listed by name")
        _print_rows(console, _methods([split_name(name, "list methods")[0]]))
        return
    for each in LISTS if kind is None else (kind,):
        indent = "  " if kind is None else ""
        if kind is None:
            console.print(Text(each, style="bold"))
        _print_rows(console, LISTS[each](), indent)
        if each in OWN:
            console.print(f"{indent}{OWN[each]}", soft_wrap=True, markup=False)


def _print_rows(console: Console, rows: Rows, indent: str = "") -> None:
    table = Table.grid(padding=(0, 2), pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for entry, line in rows.items():
        table.add_row(Text(f"{indent}{entry}"), Text(line))
    console.print(table)

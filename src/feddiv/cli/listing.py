"""What there is to choose from, with one line on each."""

from collections.abc import Callable, Mapping

from rich.console import Console
from rich.table import Table
from rich.text import Text

from feddiv.data import NOISES, PARTITIONS, SOURCES
from feddiv.methods.registry import METHODS, default_variant, full_name
from feddiv.nets import NETS
from feddiv.presets import presets

Rows = Mapping[str, str]


def _methods() -> Rows:
    """Every method with its paper, and after it every variant under its name."""
    rows = {}
    for name, method in METHODS.items():
        for variant, of in method.variants.items():
            rows[full_name(name, variant)] = of.summary
        default = default_variant(name)
        same = "" if default == "default" else f"\n= {name}-{default}, {rows[name]}"
        rows[name] = f"{method.summary} ({method.paper}){same}"
    return rows


def _first_line(kind: type) -> str:
    return (kind.__doc__ or "").strip().splitlines()[0]


LISTS: Mapping[str, Callable[[], Rows]] = {
    "methods": _methods,
    "datasets": lambda: {name: source.summary for name, source in SOURCES.items()},
    "partitions": lambda: {name: _first_line(kind) for name, kind in PARTITIONS.items()},
    "noise": lambda: {name: _first_line(kind) for name, kind in NOISES.items()},
    "models": lambda: {name: net.summary for name, net in NETS.items()},
    "presets": presets,
}


def print_lists(kind: str | None) -> None:
    """One list, or all of them under their names."""
    console = Console(highlight=False)
    for name in LISTS if kind is None else (kind,):
        if kind is None:
            console.print(Text(name, style="bold"))
        table = Table.grid(padding=(0, 2), pad_edge=False)
        for entry, line in LISTS[name]().items():
            table.add_row(Text(f"  {entry}" if kind is None else entry), Text(line))
        console.print(table)

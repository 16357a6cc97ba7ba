"""What there is to choose from, with one line on each."""

from collections.abc import Callable, Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from feddiv.config import presets
from feddiv.data import NOISES, PARTITIONS, SOURCES
from feddiv.data.catalogue import Benchmark
from feddiv.data.integrity import Copy, unfinished
from feddiv.methods.registry import METHODS
from feddiv.nets import NETS

Rows = Mapping[str, str]


def _methods() -> Rows:
    return {
        name: f"{method.summary}\n{method.paper}; variants: {', '.join(method.variants)}"
        for name, method in METHODS.items()
    }


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


def print_copies(found: Mapping[Benchmark, Sequence[Copy]]) -> None:
    """A line for each copy of a data set, or that there is none."""
    rows: list[tuple[str, str, str]] = []
    for benchmark, copies in found.items():
        for copy in copies:
            state = "whole" if copy.whole else "damaged"
            rows.append((benchmark.name, state, f"{copy.folder} ({copy.place.setting})"))
            rows += [("", "", problem) for problem in copy.problems]
        if not copies:
            part, all_of_it = unfinished(benchmark), sum(d.size for d in benchmark.downloads)
            state = f"begun, {part / all_of_it:.0%}" if part else "absent"
            rows.append((benchmark.name, state, f"feddiv data get {benchmark.name}"))
    first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
    console = Console(highlight=False)
    for name, state, where in rows:  # paths stay in one line: people copy them
        line = f"{name:<{first}}  {state:<{second}}  {where}"
        console.print(line, soft_wrap=True, markup=False)

"""Which published data sets are present, as a table."""

from collections.abc import Mapping, Sequence

from feddiv.cli.consoles import output
from feddiv.data.published.benchmarks import Benchmark
from feddiv.data.published.integrity import Copy, unfinished


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
    console = output()
    for name, state, where in rows:  # paths stay in one line: people copy them
        line = f"{name:<{first}}  {state:<{second}}  {where}"
        console.print(line, soft_wrap=True, markup=False)

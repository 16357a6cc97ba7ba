"""What of our runs agrees with the paper's table, cell by cell: order, gaps, who falls."""

from collections.abc import Callable, Sequence
from itertools import combinations, pairwise
from typing import Final

from feddiv.tables.summary_table import Line, SummaryTable

FALLEN: Final = 0.05  # how far the last ten rounds are below the best one of a method that falls


def agreement(table: SummaryTable) -> list[str]:
    """A line for each setting with two published numbers or more, then who falls in which."""
    lines = []
    for setting in table.settings:
        here = [line for line in table.lines if line.setting == setting and not line.yardstick]
        both = [line for line in here if line.published and line.measured["best"].mean is not None]
        if len({_theirs(line) for line in both}) > 1:
            lines.append(f"{setting}: {_order(both)}.")
        fallen = [line.method for line in here if _falls(line)]
        if fallen:
            lines.append(
                f"{setting}: the last ten rounds are {100 * FALLEN:.0f} points or more below the "
                f"best one of {', '.join(fallen)}."
            )
    return lines


def _order(lines: Sequence[Line]) -> str:
    # What the paper has level is in no order that ours could agree with.
    pairs = [(a, b) for a, b in combinations(lines, 2) if _theirs(a) != _theirs(b)]
    agree = sum((_ours(a) - _ours(b)) * (_theirs(a) - _theirs(b)) > 0 for a, b in pairs)
    ours = sorted(lines, key=_ours, reverse=True)
    theirs = sorted(lines, key=_theirs, reverse=True)
    gap, published = _ours(ours[0]) - _ours(ours[-1]), _theirs(theirs[0]) - _theirs(theirs[-1])
    return (
        f"{agree} of {len(pairs)} pairs of methods are in the paper's order; ours is "
        f"{_names(ours, _ours)}, the paper's {_names(theirs, _theirs)}; "
        f"from first to last {gap:.1f} points, in the paper {published:.1f}"
    )


def _names(lines: Sequence[Line], number: Callable[[Line], float]) -> str:
    said = lines[0].method
    for before, line in pairwise(lines):
        said += f" {'=' if number(before) == number(line) else '>'} {line.method}"
    return said


def _ours(line: Line) -> float:
    mean = line.measured["best"].mean
    assert mean is not None
    return 100 * mean


def _theirs(line: Line) -> float:
    assert line.published is not None
    return line.published.mean


def _falls(line: Line) -> bool:
    best, last = line.measured["best"].mean, line.measured["last ten"].mean
    return best is not None and last is not None and best - last >= FALLEN

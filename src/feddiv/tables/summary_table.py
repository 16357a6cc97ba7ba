"""Rows summed up: for each setting and method the mean over seeds, and who is best."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import mean, stdev
from typing import Final

from feddiv.core.terminal import NAME, SAID, brief, shown
from feddiv.tables.compare import FEWEST, TEST, Verdict, verdicts
from feddiv.tables.published import Number, published_of
from feddiv.tables.rows import Row

# What a table shows of a run, and where its summary has it.
MEASURES: Final[Mapping[str, str]] = {
    "best": "best_test_accuracy",
    "last": "last_test_accuracy",
    "last ten": "mean_last10_test_accuracy",
    "filter F1": "filter.f1",
    "time": "seconds",
}
ACCURACIES: Final = ("best", "last", "last ten")
COMPARED: Final = (*ACCURACIES, "filter F1")


@dataclass(frozen=True)
class Measured:
    """One measure of one method in one setting, by seed."""

    values: Mapping[int, float]
    verdict: Verdict | None = None  # None: it is not compared

    @property
    def mean(self) -> float | None:
        """Over seeds."""
        return mean(self.values.values()) if self.values else None

    @property
    def std(self) -> float | None:
        """That of a sample; None of a single seed."""
        return stdev(self.values.values()) if len(self.values) > 1 else None


@dataclass(frozen=True)
class Line:
    """A method in a setting."""

    setting: str
    method: str
    rows: tuple[Row, ...]
    measured: Mapping[str, Measured]
    published: Number | None
    yardstick: bool  # it knows the true labels, and is not compared

    @property
    def seeds(self) -> list[int]:
        """On which it was run."""
        return [row.seed for row in self.rows]


@dataclass(frozen=True)
class SummaryTable:
    """Lines by setting, and what a reader has to know."""

    lines: Sequence[Line]
    notes: Sequence[str] = field(default_factory=tuple)

    @property
    def settings(self) -> list[str]:
        """In their order."""
        return list(dict.fromkeys(line.setting for line in self.lines))

    @property
    def methods(self) -> list[str]:
        """In their order."""
        return list(dict.fromkeys(line.method for line in self.lines))

    def line(self, setting: str, method: str) -> Line | None:
        """One of them."""
        found = (each for each in self.lines if (each.setting, each.method) == (setting, method))
        return next(found, None)


def summed_up(rows: Iterable[Row]) -> SummaryTable:
    """The table of these rows; of several rows of one run the last one counts.

    From here on names can be printed, whoever wrote them.
    """
    named_rows = map(_printable, rows)
    kept = list({(row.setting, row.method, row.made_by): row for row in named_rows}.values())
    named, notes = _apart(kept)
    lines: list[Line] = []
    for setting in dict.fromkeys(row.setting for row in named):
        here = [row for row in named if row.setting == setting]
        notes += _other_draws(setting, here)
        lines += _lines(setting, here)
    counts = {len(line.rows) for line in lines}
    if any(len(line.rows) < FEWEST for line in lines) and len(lines) > 1:
        few = " to ".join(dict.fromkeys(str(each) for each in (min(counts), max(counts))))
        seeds = "seed" if few == "1" else "seeds"
        notes.append(
            f"{few} {seeds}: with fewer than {FEWEST} no difference can be told from chance"
        )
    return SummaryTable(lines, notes)


def _printable(row: Row) -> Row:
    """With names and a date that do nothing to a terminal and fill none.

    Names that only differ in what is left out are one name from here on.
    """
    setting, method = (shown(brief(name, SAID)) for name in (row.setting, row.method))
    date = shown(row.date, NAME)
    if (setting, method, date) == (row.setting, row.method, row.date):
        return row  # what it has worked out of its options stays with it
    return replace(row, setting=setting, method=method, date=date)


def _apart(rows: Sequence[Row]) -> tuple[list[Row], list[str]]:
    """Rows that have a name in common and other options than the rest get a number to it."""
    notes: list[str] = []
    settings: dict[str, list[str]] = defaultdict(list)
    methods: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        _once(settings[row.setting], row.setting_made_by)
        _once(methods[row.method], row.method_made_by)
    for what, found in (("setting", settings), ("method", methods)):
        notes += [
            f"{name!r} is the name of {len(kinds)} {what}s with other options: they are numbered"
            for name, kinds in found.items()
            if len(kinds) > 1
        ]
    return [
        replace(
            row,
            setting=_numbered(row.setting, settings[row.setting], row.setting_made_by),
            method=_numbered(row.method, methods[row.method], row.method_made_by),
        )
        for row in rows
    ], notes


def _once(known: list[str], kind: str) -> None:
    if kind not in known:
        known.append(kind)


def _numbered(name: str, kinds: Sequence[str], kind: str) -> str:
    return name if len(kinds) == 1 else f"{name} [{kinds.index(kind) + 1}]"


def _other_draws(setting: str, rows: Sequence[Row]) -> list[str]:
    draws: dict[int, set[str]] = defaultdict(set)
    for row in rows:
        draws[row.seed].add(str(row.summary.get("draw")))
    apart = [str(seed) for seed, found in draws.items() if len(found) > 1]
    if not apart:
        return []
    return [f"{setting}: methods have other draws on seed {', '.join(apart)}, and are not paired"]


def _lines(setting: str, rows: Sequence[Row]) -> list[Line]:
    draws = {(row.seed, str(row.summary.get("draw"))) for row in rows}
    paired = len(draws) == len({row.seed for row in rows})
    methods = {
        name: sorted((row for row in rows if row.method == name), key=lambda row: row.seed)
        for name in dict.fromkeys(row.method for row in rows)
    }
    knowing = {name for name, found in methods.items() if _knows_truth(found[0])}
    measured = {
        name: {key: Measured(_values(found, path)) for key, path in MEASURES.items()}
        for name, found in methods.items()
    }
    for key in COMPARED if paired else ():
        rivals = {n: measured[n][key].values for n in methods if n not in knowing}
        for name, verdict in verdicts(rivals).items() if len(rivals) > 1 else ():
            measured[name][key] = replace(measured[name][key], verdict=verdict)
    return [
        Line(setting, name, tuple(found), measured[name], published_of(found[0]), name in knowing)
        for name, found in methods.items()
    ]


def _values(rows: Sequence[Row], path: str) -> dict[int, float]:
    if path.startswith("filter."):  # where no label is wrong there is nothing to find
        rows = [row for row in rows if row.number("wrong") != 0]
    numbers = ((row.seed, row.number(path)) for row in rows)
    return {seed: number for seed, number in numbers if number is not None}


def _knows_truth(row: Row) -> bool:
    return row.experiment is not None and row.experiment.build_method().needs_truth


def legend(table: SummaryTable) -> list[str]:
    """What marks mean, where there are any; then the table's own notes."""
    found = {each.verdict for line in table.lines for each in line.measured.values()}
    lines = ["Bold: the best on average."] if "best" in found else []
    if found & {"behind", "level"}:
        lines.append(f"°: not told apart from the best by a {TEST}.")
    if found & {"too few seeds"} and found & {"behind", "level"}:
        lines.append(f"?: fewer than {FEWEST} seeds in common with the best, too few to tell.")
    if any(line.yardstick for line in table.lines):
        lines.append("In brackets: it knows the true labels, and is not compared.")
    return [*lines, *(f"{note[0].upper()}{note[1:]}." for note in table.notes)]

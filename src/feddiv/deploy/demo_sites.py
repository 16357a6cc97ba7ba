"""Three made-up hospitals: real samples in class folders, some of them in the wrong one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from feddiv.core.arrays import Rows

_SEED = 7


@dataclass(frozen=True)
class Habit:
    """How many samples a site has, what share of its labels is wrong, and a class it never saw."""

    samples: int
    wrong: float
    lacks: int | None = None  # by its number


HABITS: Mapping[str, Habit] = {
    "north": Habit(samples=350, wrong=0.0),
    "south": Habit(samples=430, wrong=0.25),
    "east": Habit(samples=520, wrong=0.6, lacks=-3),
}


@dataclass(frozen=True)
class Stock:
    """What is dealt to the sites: samples by number, of which each can be written into a file.

    `data` and `model` are what the experiment says about them.
    """

    what: str  # images, texts
    classes: tuple[str, ...]
    labels: Rows
    test_labels: Rows
    ending: str
    write: Callable[[Path, int], None]
    write_test: Callable[[Path, int], None]
    data: Mapping[str, Any]
    model: str


@dataclass(frozen=True)
class DemoSite:
    """A site's folder, and what only the demonstration knows: which of its labels are wrong."""

    name: str
    data: Path
    samples: int
    wrong: frozenset[str]  # paths from the folder


@dataclass(frozen=True)
class DemoData:
    """The sites, a test folder for the server, and what they were dealt from."""

    sites: tuple[DemoSite, ...]
    test: Path
    stock: Stock


def write_demo_data(folder: Path, stock: Stock) -> DemoData:
    """The same folders every time."""
    rng = np.random.default_rng(_SEED)
    order = rng.permutation(len(stock.labels))
    sites, begin = [], 0
    for name, habit in HABITS.items():
        # A site with a gap in its classes leaves those samples to nobody.
        mine = order[begin : begin + habit.samples]
        begin += habit.samples
        sites.append(_site(folder / name, stock, mine, habit, rng))
    tested = np.arange(len(stock.test_labels))
    _write(folder / "test", stock, stock.write_test, tested, stock.test_labels)
    return DemoData(tuple(sites), folder / "test", stock)


def _site(
    folder: Path, stock: Stock, mine: Rows, habit: Habit, rng: np.random.Generator
) -> DemoSite:
    truth, classes = stock.labels[mine], np.arange(len(stock.classes))
    allowed = classes if habit.lacks is None else np.delete(classes, habit.lacks)
    kept = np.isin(truth, allowed)
    mine, truth = mine[kept], truth[kept]
    given = truth.copy()
    for at in rng.choice(len(mine), round(habit.wrong * len(mine)), replace=False):
        given[at] = rng.choice(allowed[allowed != truth[at]])
    paths = _write(folder, stock, stock.write, mine, given)
    wrong = frozenset(path for path, t, g in zip(paths, truth, given, strict=True) if t != g)
    return DemoSite(folder.name, folder, len(mine), wrong)


def _write(
    folder: Path, stock: Stock, write: Callable[[Path, int], None], which: Rows, given: Rows
) -> list[str]:
    """Each sample into the folder of its given label; gives their paths from the folder."""
    paths = []
    for index, label in zip(which.tolist(), given.tolist(), strict=True):
        path = folder / stock.classes[label] / f"{index:04d}{stock.ending}"
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, index)
        paths.append(path.relative_to(folder).as_posix())
    return paths

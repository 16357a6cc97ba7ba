"""The numbers of the paper's tables, and which of our runs stand beside them."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from feddiv.config.experiment import Experiment, changed_options
from feddiv.config.reading import load_experiment
from feddiv.methods.registry import full_name
from feddiv.tables.rows import Row


@dataclass(frozen=True)
class Number:
    """Best test accuracy in percent, mean and standard deviation of five trials (of some, none)."""

    mean: float
    std: float | None

    def __str__(self) -> str:
        return f"{self.mean:.2f}" if self.std is None else f"{self.mean:.2f}±{self.std:.2f}"


def data_file(name: str) -> dict[str, Any]:
    """A TOML file that lies beside the code."""
    return tomllib.loads((resources.files("feddiv.tables") / name).read_text("utf-8"))


@cache
def published() -> dict[tuple[str, str], Number]:
    """By cell, which is a preset, and by our name of the method."""
    tree, found = data_file("published.toml"), {}
    ours: Mapping[str, list[str]] = tree.pop("ours")
    for table in tree.values():
        cells = table["cells"]
        for method in table.keys() - {"cells"}:
            for cell, said in zip(cells, table[method], strict=True):
                mean, _, std = said.partition("±")
                number = Number(float(mean), float(std) if std else None)
                found.update({(cell, name): number for name in ours[method]})
    return found


def published_of(row: Row) -> Number | None:
    """What the paper has for the cell and method of a row; None where it has nothing."""
    cell, experiment = cell_of(row), row.experiment
    if cell is None or experiment is None or changed_options(experiment):
        return None
    method = full_name(experiment.method.name, experiment.method.variant)
    return published().get((cell, method))


def cell_of(row: Row) -> str | None:
    """The cell of the paper that a row is of: as it says itself, or by its data and its noise."""
    if row.paper is not None:
        return row.paper
    if row.experiment is None:
        return None
    return _cells().get(_benchmark(row.experiment))


@cache
def _cells() -> dict[str, str]:
    """The paper's cells by their data, partition and noise."""
    names = dict.fromkeys(cell for cell, _ in published())
    return {_benchmark(load_experiment(name)): name for name in names}


def _benchmark(experiment: Experiment) -> str:
    data, clients = experiment.data, experiment.clients
    parts = (experiment.partition.model_dump(), experiment.noise.model_dump())
    return str((data.source, data.images, clients.count, clients.fraction, *parts))

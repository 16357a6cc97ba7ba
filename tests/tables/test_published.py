"""The published numbers are those of the paper, as the shared specification has them."""

import os
import re
from pathlib import Path

import pytest
from tests.docs.pages import ROOT

from feddiv.config.reading import load_experiment
from feddiv.methods.registry import METHODS, names_of
from feddiv.presets import preset_names
from feddiv.tables.published import data_file, published, published_of
from feddiv.tables.rows import Row

# The paper and what was copied from it are not in this repository: they may lie beside it.
SHARED = Path(os.environ.get("FEDDIV_PAPER", ROOT.parent / "shared"))
SPEC = SHARED / "spec" / "numbers.md"
PAPER = SHARED / "paper"
shared = pytest.mark.skipif(not SPEC.is_file(), reason="the shared specification is not here")


def test_cells_are_presets_and_methods_are_ours() -> None:
    ours = {name for method in METHODS for name in names_of(method)}
    assert {cell for cell, _ in published()} <= set(preset_names())
    assert {method for _, method in published()} <= ours
    assert len({cell for cell, _ in published()}) == 14


def numbers() -> list[str]:
    """All of the data file, as `mean` or `mean±std`."""
    tree = data_file("published.toml")
    tree.pop("ours")
    return sorted(
        said for table in tree.values() for key in table.keys() - {"cells"} for said in table[key]
    )


@shared
def test_every_number_is_in_the_specification() -> None:
    rows = re.findall(r"^\| *(\w+) *\|(.*)\|$", SPEC.read_text(), re.MULTILINE)
    cells = [
        _spelt_out(cell.strip()) for _, line in rows for cell in line.split("|") if "." in cell
    ]
    ablation = SPEC.read_text().partition("**FedDiv ablation**")[2].partition("\n")[0]
    cells += [_spelt_out(each) for each in re.findall(r"\d\d\.\d\d±\d?\.\d\d", ablation)]
    heads = [each for each in cells if not re.fullmatch(r"\d\d\.\d\d(±\d\.\d\d)?", each)]
    assert sorted(set(cells) - set(heads)) == sorted(set(numbers()))


def _spelt_out(number: str) -> str:
    return re.sub(r"±\.", "±0.", number)


@shared
def test_rows_are_in_the_order_of_the_papers_tables() -> None:
    (source,) = PAPER.glob("*.tex")
    tables = re.findall(r"\\begin\{tabular\}.*?\\bottomrule", source.read_text(), re.DOTALL)
    found = [
        [re.sub(r"\\textbf\{|\}|\s", "", cell).replace(r"$\pm$", "±") for cell in line.split("&")]
        for table in tables
        for line in re.sub(r"\\\\\s*", "\n", table.replace(r"\&", "and")).splitlines()
        if re.search(r"&.*\d\d\.\d\d", line)
    ]
    tree = data_file("published.toml")
    ours = [
        [*table[method]]
        for name, table in tree.items()
        if name.startswith("table")
        for method in table
        if method != "cells"
    ]
    assert [cells[1:] for cells in found] == ours


def row(preset: str, **overrides: object) -> Row:
    experiment = load_experiment(preset, overrides)
    options = experiment.model_dump(mode="json", exclude_none=True)
    return Row("any", "any", 0, options, "", "", {})


def test_a_row_finds_its_cell_by_data_and_noise() -> None:
    cell = "cifar10-features-iid-0.8-0.5"
    assert str(published_of(row(cell, **{"method.name": "feddiv-paper"}))) == "91.44±0.25"
    assert str(published_of(row(cell, **{"method.name": "arfl_auto"}))) == "53.23±1.67"
    assert published_of(row(cell)) is None, "plus is ours"
    changed = {"method.name": "feddiv-paper", "method.relabel.confidence": 0.5}
    assert published_of(row(cell, **changed)) is None
    assert published_of(row("cifar10-laptop", **{"method.name": "fedavg"})) is None
    assert str(published_of(row("clothing1m", **{"method.name": "fedavg"}))) == "70.49"


def test_a_row_may_name_the_cell_that_it_stands_for() -> None:
    digits = row("quickstart", **{"method.name": "fedavg"})
    assert published_of(digits) is None
    named = Row(**{**digits.as_json(), "paper": "cifar10-iid-0.8-0.5"})
    assert str(published_of(named)) == "72.00±2.76"

"""The paper's tables and figures at every scale: what is run, what is shown, what is said."""

from pathlib import Path
from typing import Any

import pytest

from feddiv.core.dotted import flat
from feddiv.core.errors import UserError
from feddiv.methods.feddiv.feddiv_options import PAPER, RELEASE, FedDivOptions
from feddiv.presets import preset_names
from feddiv.reports.figures import FIGURES
from feddiv.tables.plan import plan_of
from feddiv.tables.published import data_file, published
from feddiv.tables.reproduce import write_study
from feddiv.tables.rows import Row
from feddiv.tables.studies import (
    cell_title,
    chosen_seeds,
    cost_lines,
    not_shown,
    only_cells,
    passes,
    scale_names,
    scale_of,
    study_names,
    study_of,
    sweep_for,
)
from feddiv.tables.sweep import Swept
from feddiv.tables.sweep_file import Sweep

NAMES = [*(f"table{number}" for number in range(1, 6)), "figure-filter", "figure-posterior"]
NAMES += ["figure-stability", "figure-heatmaps", "figure-zeta", "differences", "steps"]


def test_every_table_and_figure_and_every_scale_is_there() -> None:
    assert study_names() == NAMES
    assert scale_names() == ["tiny", "laptop", "features", "paper"]


@pytest.mark.parametrize("name", scale_names())
def test_a_scale_shows_every_cell_or_says_why_not(name: str) -> None:
    scale = scale_of(name)
    cells = {cell for study in map(study_of, study_names()) for cell in study.cells}
    assert {*scale.settings, *scale.missing} == cells == {cell for cell, _ in published()}
    assert not scale.settings.keys() & scale.missing.keys()
    called = sweep_for(study_of("table1"), scale, ["fedavg"], "1").settings[0]
    assert called.endswith("CIFAR-10 IID (0.4, 0.0)"), "what it stands for"
    assert (called == "CIFAR-10 IID (0.4, 0.0)") == (name == "paper"), "and what it is"
    assert all(scale.missing.values())
    for study in map(study_of, study_names()):
        if cells_of(name, study.cells):
            sweep_for(study, scale)  # every cell with every method can be run
        else:
            with pytest.raises(UserError, match=f"{study.name} cannot be shown at --scale {name}"):
                sweep_for(study, scale)


def cells_of(scale: str, cells: tuple[str, ...]) -> list[str]:
    return [cell for cell in cells if cell in scale_of(scale).settings]


@pytest.mark.parametrize("name", ["features", "paper"])
def test_larger_scales_run_the_papers_cells(name: str) -> None:
    for cell, setting in scale_of(name).settings.items():
        assert setting in preset_names()
        assert setting.replace("-features", "") == cell


def test_tables_have_the_methods_and_cells_of_the_paper_and_fair_terms() -> None:
    tree = data_file("published.toml")
    for number in range(1, 6):
        study = study_of(f"table{number}")
        assert list(study.cells) == tree[study.name]["cells"]
        ours = {name for key in tree[study.name].keys() - {"cells"} for name in tree["ours"][key]}
        if number == 5:
            ours.discard("feddiv-release")
        assert ours | {"fedavg-warm", "feddiv"} <= study.methods.keys()


def test_figures_are_those_of_reports_and_cells_have_titles() -> None:
    for study in map(study_of, study_names()):
        assert set(study.figures) <= FIGURES.keys()
        assert all(cell_title(cell) for cell in study.cells)


def test_a_run_that_two_studies_need_is_made_once() -> None:
    tiny = scale_of("tiny")
    zeta = sweep_for(study_of("figure-zeta"), tiny, seeds="1")
    table = sweep_for(study_of("table1"), tiny, ["feddiv-paper"], "1")
    both = {job.made_by for job in zeta.jobs} & {job.made_by for job in table.jobs}
    assert len(both) == 1, "ζ = 0.75 is the paper's"


def test_differences_are_all_that_the_release_has_and_all_that_plus_has() -> None:
    def changed(method: dict[str, Any] | str) -> set[str]:
        tree = {key: value for key, value in dict(method).items() if key != "name"}
        return set(flat(tree))

    plus = flat(FedDivOptions().model_dump())
    study = study_of("differences").methods
    alone = [changed(each) for each in study.values() if not isinstance(each, str)]
    assert all(len(each) == 1 for each in alone)
    release = {key for key, value in RELEASE.items() if PAPER.get(key, plus[key]) != value}
    assert set().union(*alone) == release
    steps = [
        changed(each) for each in study_of("steps").methods.values() if not isinstance(each, str)
    ]
    ours = {key for key, value in PAPER.items() if plus[key] != value}
    assert set().union(*steps) == ours - {"filter.monotone"}, "which is part of the mixture's fit"


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        (None, (30, 31, 32, 33, 34)),
        ("1", (30,)),
        ("2", (30, 31)),
        ("7,9", (7, 9)),
        ("40-42,7", (40, 41, 42, 7)),
    ],
)
def test_seeds_are_counted_or_named(text: str | None, seeds: tuple[int, ...]) -> None:
    assert chosen_seeds(scale_of("tiny"), text) == seeds


@pytest.mark.parametrize("text", ["0", "9", "a", "1-b", "1-2-3", "5-3", "0-99999999999999999999"])
def test_seeds_that_are_none(text: str) -> None:
    with pytest.raises(UserError, match=f"^--seeds {text}: "):
        chosen_seeds(scale_of("tiny"), text)


def test_unknown_names_are_named() -> None:
    with pytest.raises(UserError, match=r"'table6' is unknown .*table1"):
        study_of("table6")
    with pytest.raises(UserError, match=r"--scale big: unknown; there are tiny, laptop"):
        scale_of("big")
    with pytest.raises(UserError, match=r"'fedagv' is unknown \(did you mean 'fedavg'"):
        sweep_for(study_of("table1"), scale_of("tiny"), ["fedagv"])
    with pytest.raises(UserError, match="--methods names none"):
        sweep_for(study_of("table1"), scale_of("tiny"), [])


def test_some_cells_alone_in_the_order_of_the_table() -> None:
    table = study_of("table2")
    some = only_cells(table, ["cifar10-noniid-0.3-10", "cifar10-noniid-0.7-10"])
    assert some.cells == ("cifar10-noniid-0.7-10", "cifar10-noniid-0.3-10")
    assert only_cells(table, None) is table
    plan = sweep_for(some, scale_of("tiny"), ["fedavg"], "1")
    assert plan.settings == [
        "digits for CIFAR-10 non-IID (0.7, 10)",
        "digits for CIFAR-10 non-IID (0.3, 10)",
    ]
    with pytest.raises(
        UserError, match=r"--cells cifar10-noniid-0.3-1: no cell of table2 \(did you mean 'cifar10-"
    ):
        only_cells(table, ["cifar10-noniid-0.3-1"])
    with pytest.raises(UserError, match="--cells names none"):
        only_cells(table, [])
    lost = only_cells(study_of("table4"), ["clothing1m"])  # the other cell can be shown
    with pytest.raises(UserError, match="clothing1m of table4 cannot be shown at --scale tiny: "):
        sweep_for(lost, scale_of("tiny"))


def test_the_cost_of_the_paper_is_counted() -> None:
    scale = scale_of("paper")
    sweep = sweep_for(study_of("table1"), scale, ["fedavg"], "1")
    # 1,000 rounds of a tenth of 50,000 images, five times each
    assert [passes(job) for job in sweep.jobs] == [25e6] * 6
    first, second = cost_lines(sweep.jobs, scale)
    assert first == "resnet18: 0.1 billion images to train on"
    assert second.startswith("about 14 hours of one GPU (2.3 a run), if it trains on")
    assert "assumed, not measured" in second
    assert cost_lines(sweep.jobs, scale_of("tiny")) == []


def finished(sweep: Sweep, folder: Path) -> Swept:
    """As if all runs had ended, each a little better than the one before."""
    rows = [
        Row(
            job.setting,
            job.method,
            job.seed,
            job.experiment.model_dump(mode="json", exclude_none=True),
            job.command,
            "2026-01-01",
            {
                "best_test_accuracy": 0.5 + place / 1000,
                "last_test_accuracy": 0.4,
                "mean_last10_test_accuracy": 0.45,
                "filter": None,
                "seconds": 5.0,
                "rounds": job.experiment.rounds,
                "draw": f"{job.setting} {job.seed}",
            },
            [0.1, 0.2 + place / 1000, None],
            job.paper,
        )
        for place, job in enumerate(sweep.jobs)
    ]
    return Swept(plan_of(sweep, rows), folder, folder / "rows.jsonl", {})


def test_a_study_ends_with_its_table_the_published_cells_and_a_page(tmp_path: Path) -> None:
    study, scale = study_of("table4"), scale_of("tiny")
    sweep = sweep_for(study, scale, ["fedavg", "feddiv-paper", "feddiv"], "3")
    made = write_study(study, scale, finished(sweep, tmp_path))
    assert made.text.startswith("Table 4: ")
    # Differences that are the same on every seed tell nothing: no method is behind.
    assert "| fedavg | 50.3±0.3° | 64.75±1.75 |" in made.text
    assert "| feddiv-paper | 50.4±0.3° | 74.47±0.34 |" in made.text
    assert "| feddiv | **50.5±0.3** | – |" in made.text
    assert "Clothing1M is not shown at scale tiny: digits have no wrong labels" in made.text
    page = made.page.read_text()
    assert not_shown(study, scale)[0] in page
    assert page.count("data:image/svg+xml") == 1
    assert "74.47±0.34" in page
    for suffix, text in ((".tex", r"\bottomrule"), (".csv", "74.47,0.34"), (".md", "| setting |")):
        assert text in made.tables.with_suffix(suffix).read_text()


def test_zeta_is_drawn_from_rows(tmp_path: Path) -> None:
    study, scale = study_of("figure-zeta"), scale_of("tiny")
    made = write_study(study, scale, finished(sweep_for(study, scale, seeds="2"), tmp_path))
    page = made.page.read_text()
    assert "Against ζ" in page
    assert page.count("data:image/svg+xml") == 3


def test_nothing_finished_is_no_table(tmp_path: Path) -> None:
    study, scale = study_of("table1"), scale_of("tiny")
    sweep = sweep_for(study, scale, ["fedavg"], "1")
    with pytest.raises(UserError, match="no run is finished"):
        write_study(study, scale, Swept(plan_of(sweep, []), tmp_path, tmp_path, {}))

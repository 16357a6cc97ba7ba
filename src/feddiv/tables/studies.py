"""The paper's tables and figures, and the scales at which they can be made again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final

from feddiv.core.did_you_mean import did_you_mean
from feddiv.core.errors import UserError
from feddiv.tables.published import data_file
from feddiv.tables.sweep_file import Sweep, SweepJob, sweep_of

MOST_SEEDS: Final = 1000  # of a range: more are a slip of the keyboard
# Samples that clients train on, for what a plan costs; of digits a fifth is the test set.
SIZES: Final = {"cifar10": 50_000, "cifar100": 50_000, "clothing1m": 1_000_000, "digits": 1_437}


@dataclass(frozen=True)
class Study:
    """One table or figure."""

    name: str
    title: str
    cells: tuple[str, ...]
    methods: Mapping[str, Any]  # what each name stands for, as in a sweep's file
    figures: tuple[str, ...]


@dataclass(frozen=True)
class Scale:
    """What is run for a cell, and which cells can't be shown."""

    name: str
    description: str
    called: str  # what a setting is called, with {cell} for the paper's
    seeds: tuple[int, ...]
    options: Mapping[str, Any]
    settings: Mapping[str, Any]
    missing: Mapping[str, str]
    speed: Mapping[str, float]  # images a second of training, by net


@cache
def _studies() -> dict[str, Any]:
    return data_file("studies.toml")


def study_names() -> list[str]:
    """All of them."""
    return list(_studies()["studies"])


def scale_names() -> list[str]:
    """From the smallest on."""
    found = [file.name for file in (resources.files("feddiv.tables") / "scales").iterdir()]
    known = [name.removesuffix(".toml") for name in found if name.endswith(".toml")]
    return sorted(known, key=("tiny", "laptop", "features", "paper").index)


def cell_title(cell: str) -> str:
    """What a cell is called in tables."""
    return str(_studies()["cells"][cell])


def study_of(name: str) -> Study:
    """That of this name."""
    known = _studies()["studies"]
    if name not in known:
        raise UserError(
            f"{name!r} is unknown{did_you_mean(name, known)}; there are {', '.join(known)}"
        )
    tree = known[name]
    methods = _studies()["sets"][tree["methods"]]
    return Study(
        name,
        tree["title"],
        tuple(tree["cells"]),
        methods if isinstance(methods, Mapping) else {each: each for each in methods},
        tuple(tree["figures"]),
    )


def only_cells(study: Study, names: Sequence[str] | None) -> Study:
    """The study with these of its cells alone, in its own order; with all where none are named."""
    if names is None:
        return study
    for name in names:
        if name not in study.cells:
            raise UserError(
                f"--cells {name}: no cell of {study.name}{did_you_mean(name, study.cells)}; it has "
                f"{', '.join(study.cells)}"
            )
    if not names:
        raise UserError("--cells names none; leave it out for all of the table")
    return replace(study, cells=tuple(cell for cell in study.cells if cell in names))


def scale_of(name: str) -> Scale:
    """That of this name."""
    known = scale_names()
    if name not in known:
        raise UserError(
            f"--scale {name}: unknown{did_you_mean(name, known)}; there are {', '.join(known)}"
        )
    tree = data_file(f"scales/{name}.toml")
    return Scale(
        name,
        tree["description"],
        tree["called"],
        tuple(tree["seeds"]),
        tree.get("options", {}),
        tree["settings"],
        tree["missing"],
        tree.get("speed", {}),
    )


def chosen_seeds(scale: Scale, text: str | None) -> tuple[int, ...]:
    """A number N: the first N seeds of the scale. `30,31` and `30-32`: these seeds."""
    if text is None:
        return scale.seeds
    try:
        if text.strip().isdigit():
            count = int(text)
            if not 1 <= count <= len(scale.seeds):
                raise UserError(
                    f"--seeds {text}: {scale.name} has {len(scale.seeds)} seeds, "
                    f"{scale.seeds[0]} to {scale.seeds[-1]}; others are named by 40,41 or 40-42, a "
                    "single one by 40-40"
                )
            return scale.seeds[:count]
        seeds: list[int] = []
        for part in filter(None, (each.strip() for each in text.split(","))):
            first, dash, last = part.partition("-")
            begin, end = int(first), int(last if dash else first)
            if not begin <= end < begin + MOST_SEEDS:
                raise UserError(f"--seeds {text}: {part} is no range of 1 to {MOST_SEEDS:,} seeds")
            seeds += range(begin, end + 1)
    except ValueError:
        raise UserError(f"--seeds {text}: give a number, a list 30,31 or a range 30-32") from None
    return tuple(dict.fromkeys(seeds))


def chosen_methods(study: Study, names: Sequence[str] | None) -> dict[str, Any]:
    """Those that are named, of the study's own or others."""
    if names is None:
        return dict(study.methods)
    if not names:
        raise UserError("--methods names none; leave it out for all of the table")
    return {name: study.methods.get(name, name) for name in names}


def sweep_for(
    study: Study,
    scale: Scale,
    methods: Sequence[str] | None = None,
    seeds: str | None = None,
    rows: Path | None = None,
    keep: str = "runs",
) -> Sweep:
    """The runs of a study at a scale."""
    shown = [cell for cell in study.cells if cell in scale.settings]
    if not shown:
        reasons = "; ".join(dict.fromkeys(scale.missing[cell] for cell in study.cells))
        whole = study.cells == study_of(study.name).cells
        what = study.name if whole else f"{', '.join(study.cells)} of {study.name}"
        raise UserError(f"{what} cannot be shown at --scale {scale.name}: {reasons}")
    tree = {
        "settings": {_name(scale, cell): _setting(scale, cell) for cell in shown},
        "methods": chosen_methods(study, methods),
        "options": scale.options,
        "seeds": list(chosen_seeds(scale, seeds)),
        "keep": keep,
        **({} if rows is None else {"rows": str(rows.absolute())}),
    }
    return sweep_of(tree, scale.name, Path(), f"{study.name} at scale {scale.name}")


def _name(scale: Scale, cell: str) -> str:
    return scale.called.format(cell=cell_title(cell))


def _setting(scale: Scale, cell: str) -> dict[str, Any]:
    given = scale.settings[cell]
    tree = {"base": given} if isinstance(given, str) else given
    return {**tree, "paper": cell}


def not_shown(study: Study, scale: Scale) -> list[str]:
    """A line for each cell that the scale can't show."""
    return [
        f"{cell_title(cell)} is not shown at scale {scale.name}: {scale.missing[cell]}"
        for cell in study.cells
        if cell not in scale.settings
    ]


def passes(job: SweepJob) -> float:
    """Images that a run trains on, each as often as it does; filters and evaluation are extra."""
    experiment = job.experiment
    size = experiment.data.images or SIZES[experiment.data.source]
    visited = experiment.clients.fraction * size * experiment.train.epochs
    return experiment.rounds * visited


def cost_lines(jobs: Sequence[SweepJob], scale: Scale) -> list[str]:
    """What runs cost where nobody has measured it yet."""
    if not scale.speed or not jobs:
        return []
    lines, hours = [], 0.0
    nets = list(dict.fromkeys(job.experiment.model.name for job in jobs))
    for net in nets:
        total = sum(passes(job) for job in jobs if job.experiment.model.name == net)
        hours += total / scale.speed[net] / 3600
        lines.append(f"{net}: {total / 1e9:.1f} billion images to train on")
    assumed = ", ".join(f"{net} {scale.speed[net]:,.0f}" for net in nets)
    return [
        *lines,
        f"about {hours:,.0f} hours of one GPU ({hours / len(jobs):,.1f} a run), if it trains on so "
        f"many images a second: {assumed} (assumed, not measured; filters, evaluation and "
        "DivideMix's second net are extra)",
    ]

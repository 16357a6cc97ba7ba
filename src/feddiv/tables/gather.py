"""Rows from where people point: files of rows, folders of sweeps, folders of runs."""

from collections.abc import Iterable
from pathlib import Path

from feddiv.config.experiment import Experiment, changed_options
from feddiv.config.reading import load_experiment
from feddiv.core.errors import UserError
from feddiv.core.given_files import at_home
from feddiv.core.import_path import named_in
from feddiv.methods.registry import full_name
from feddiv.tables.rows import Row, read_rows, row_of
from feddiv.tables.sweep import ROWS


def gather(places: Iterable[str | Path]) -> list[Row]:
    """The rows of all these files and folders."""
    rows = [row for place in places for row in _rows(at_home(place))]
    if not rows:
        raise UserError("there is no finished run in what was named")
    return rows


def _rows(place: Path) -> list[Row]:
    if place.is_file():
        return read_rows(place)
    if not place.is_dir():
        raise UserError(f"{place}: there is no such file or folder")
    if (place / ROWS).is_file():
        return read_rows(place / ROWS)
    found = [
        _of_run(file.parent)
        for file in sorted(place.rglob("summary.json"))
        if (file.parent / "config.toml").is_file()
    ]
    if not found:
        raise UserError(f"{place}: holds no {ROWS} and no finished run")
    return found


def _of_run(folder: Path) -> Row:
    config = folder / "config.toml"
    with named_in(config, ()):
        experiment = load_experiment(config)
    own = full_name(experiment.method.name, experiment.method.variant)
    changed = ", ".join(f"{key}={value}" for key, value in changed_options(experiment).items())
    method = f"{own} with {changed}" if changed else own
    command = f"feddiv run {config}"
    return row_of(folder, experiment, setting=words_of(experiment), method=method, command=command)


def words_of(experiment: Experiment) -> str:
    """A setting in words: its data, partition and noise."""
    parts = [experiment.data.source]
    for section in (experiment.partition, experiment.noise):
        values = section.model_dump(exclude_defaults=True, exclude_none=True, mode="json")
        name = values.pop("name", section.model_dump()["name"])
        said = " ".join(f"{key}={value}" for key, value in values.items())
        parts.append(f"{name} {said}".strip())
    return ", ".join(parts)

"""A sweep's file: which methods, in which settings, on which seeds."""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field, ValidationError, field_validator

from feddiv.config.experiment import Experiment
from feddiv.config.mistakes import one_line
from feddiv.config.reading import load_experiment, parsed
from feddiv.core.did_you_mean import did_you_mean
from feddiv.core.dotted import flat
from feddiv.core.errors import UserError
from feddiv.core.given_files import at_home, read_given
from feddiv.core.options import Options
from feddiv.data.draw.corrected import correction_files, files_digest
from feddiv.methods.registry import split_name
from feddiv.presets import preset_names, toml_tree
from feddiv.tables.rows import fingerprint

Named = dict[str, Any] | list[str]  # names alone, or what each name stands for
Seeds = Annotated[tuple[Annotated[int, Field(ge=0, lt=2**63)], ...], Field(strict=False)]
SETTLED: Final = ("seed", "against", "method")  # what a setting or the options may not say
LONGEST: Final = 60  # characters of a name in a folder's name
MOST: Final = 10_000  # runs of one sweep: each is resolved before the first begins


class SweepFile(Options):
    """What a sweep's file may hold."""

    description: str = ""  # one line
    seeds: Seeds  # every method runs on each of them, on the same draws
    # Names of presets, or a table: a name and, for it, a preset or `base = PRESET` with changes.
    settings: Named
    # Names of methods or variants, or a table: a name and, for it, a method or a table of options.
    methods: Named
    options: Mapping[str, Any] = Field(
        default_factory=dict
    )  # on top of every setting, as in an experiment's file
    keep: Literal["runs", "rows"] = "runs"  # rows: a run's folder goes when its row is kept
    rows: str | None = None  # where rows are kept, from this file's folder on; else in the sweep's

    @field_validator("seeds")
    @classmethod
    def _some(cls, seeds: tuple[int, ...]) -> tuple[int, ...]:
        if not seeds:
            raise ValueError("is empty; name one at least")
        if len(set(seeds)) < len(seeds):
            raise ValueError("a seed is named twice")
        return seeds


@dataclass(frozen=True, eq=False)
class SweepJob:
    """One run of a sweep; it equals itself alone."""

    setting: str
    method: str
    seed: int
    source: str
    overrides: Mapping[str, Any]  # by dotted key; seed and `against` are not among them
    experiment: Experiment
    paper: str | None = None  # the published cell that the setting stands for

    @cached_property
    def made_by(self) -> str:
        """The fingerprint of its options, and of what experts have decided by now."""
        files = self.experiment.data.corrections
        if files is None:
            return fingerprint(self.experiment)
        try:
            said = files_digest(correction_files(files))
        except UserError:  # the run itself will say so, and no other fails with it
            said = "unreadable"
        return fingerprint(self.experiment, corrections=said)

    @property
    def arguments(self) -> list[str]:
        """What follows `feddiv run`."""
        settings = [f"{key}={typed(value)}" for key, value in self.overrides.items()]
        return [self.source, *settings, f"seed={self.seed}", "against=[]"]

    @property
    def command(self) -> str:
        """The command that makes this run alone."""
        return f"feddiv run {shlex.join(self.arguments)}"

    @property
    def title(self) -> str:
        """For people."""
        return f"{self.setting}, {self.method}, seed {self.seed}"

    @property
    def folder(self) -> Path:
        """Where it runs, below the sweep's folder: other options have another folder."""
        return Path(slug(self.setting)) / f"{slug(self.method)}-seed{self.seed}-{self.made_by[:8]}"


@dataclass(frozen=True)
class Sweep:
    """A sweep as it is to be run: its jobs, in the order of seeds, settings and methods."""

    name: str
    description: str
    jobs: tuple[SweepJob, ...]
    keep: Literal["runs", "rows"]
    rows: Path | None

    @property
    def settings(self) -> list[str]:
        """Their names."""
        return list(dict.fromkeys(job.setting for job in self.jobs))

    @property
    def methods(self) -> list[str]:
        """Their names."""
        return list(dict.fromkeys(job.method for job in self.jobs))

    @property
    def seeds(self) -> list[int]:
        """All of them."""
        return list(dict.fromkeys(job.seed for job in self.jobs))


def read_sweep(source: str | Path | Mapping[str, Any]) -> Sweep:
    """The sweep of a TOML file, or of a tree of the same keys."""
    if isinstance(source, Mapping):
        return sweep_of(source, "sweep", Path(), "sweep")
    file = at_home(source)
    try:
        text = read_given(file).decode()
    except OSError as error:
        raise UserError(f"sweep file {file}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise UserError(f"sweep file {file} is not TOML: {error}") from None
    where = f"sweep file {file}"
    return sweep_of(toml_tree(text, where), file.name.removesuffix(".toml"), file.parent, where)


def sweep_of(tree: Mapping[str, Any], name: str, home: Path, where: str) -> Sweep:
    """The sweep of a tree; paths in it begin in the folder `home`."""
    for key in tree:  # before what is missing: it may be what was meant
        if key not in SweepFile.model_fields:
            known = list(SweepFile.model_fields)
            raise UserError(
                f"{where}: {key} is an unknown key{did_you_mean(key, known)}; "
                f"allowed here: {', '.join(known)}"
            )
    try:
        given = SweepFile.model_validate(tree)
    except ValidationError as error:
        raise UserError(f"{where}: {one_line(error, tree, SweepFile)}") from None
    all_settings = _table(given.settings, "settings", where)
    all_methods = _table(given.methods, "methods", where)
    _check_count(len(all_settings), len(all_methods), len(given.seeds), where)
    settings = {
        label: _setting(label, value, given.options, home, where)
        for label, value in all_settings.items()
    }
    methods = {label: _method(label, value, where) for label, value in all_methods.items()}
    jobs = [
        _job(setting, settings[setting], method, methods[method], seed, where)
        for seed in given.seeds
        for setting in settings
        for method in methods
    ]
    _check_names([job.folder for job in jobs], where)
    if "\0" in (given.rows or ""):  # found out after the first run otherwise
        raise UserError(f"{where}: rows={given.rows!r}: a name cannot have a zero byte in it")
    rows = None if given.rows is None else home / at_home(given.rows)
    return Sweep(name, given.description, tuple(jobs), given.keep, rows)


def _check_count(settings: int, methods: int, seeds: int, where: str) -> None:
    count = settings * methods * seeds
    if count > MOST:
        raise UserError(
            f"{where}: {settings:,} settings × {methods:,} methods × {seeds:,} seeds are "
            f"{count:,} runs; one sweep has {MOST:,} at most"
        )


@dataclass(frozen=True)
class _Setting:
    source: str
    overrides: Mapping[str, Any]
    paper: str | None


def _table(given: Named, key: str, where: str) -> dict[str, Any]:
    names = {name: name for name in given} if isinstance(given, list) else given
    if not names:
        raise UserError(f"{where}: {key} is empty; name one at least")
    if len(names) < len(given):
        raise UserError(f"{where}: {key} names one twice")
    return names


def _setting(label: str, value: Any, common: Mapping[str, Any], home: Path, where: str) -> _Setting:
    place = f"{where}: settings.{label}"
    tree = {"base": value} if isinstance(value, str) else value
    if not isinstance(tree, Mapping) or not isinstance(tree.get("base"), str):
        raise UserError(
            f"{place}: give a preset's name, or a table with base = PRESET or FILE.toml"
        )
    rest = {key: tree[key] for key in tree if key not in ("base", "paper")}
    paper, source = tree.get("paper"), tree["base"]
    if paper is not None and not isinstance(paper, str):
        raise UserError(f"{place}: paper={paper!r} is no name of a published cell")
    overrides = {**flat(common), **flat(rest)}
    for key in overrides:
        if key.partition(".")[0] in SETTLED:
            raise UserError(
                f"{place}: {key} is not a setting's to say; seeds and methods are named apart"
            )
    if source not in preset_names() and source.endswith(".toml"):
        source = str(home / at_home(source))
    return _Setting(source, overrides, paper)


def _method(label: str, value: Any, where: str) -> dict[str, Any]:
    tree = {"name": value} if isinstance(value, str) else value
    if not isinstance(tree, Mapping) or not isinstance(tree.get("name"), str):
        raise UserError(
            f"{where}: methods.{label}: give a method's name, or a table with name = METHOD"
        )
    try:
        split_name(tree["name"], f"methods.{label}")
    except UserError as problem:
        raise UserError(f"{where}: {problem}") from None
    return {f"method.{key}": inner for key, inner in flat(tree).items()}


def _job(
    label: str, setting: _Setting, method: str, options: Mapping[str, Any], seed: int, where: str
) -> SweepJob:
    overrides = {**setting.overrides, **options}
    try:
        experiment = load_experiment(setting.source, {**overrides, "seed": seed, "against": []})
    except UserError as problem:
        raise UserError(f"{where}: {label!r} with {method!r}: {problem}") from None
    if experiment.federation.name != "local":
        raise UserError(
            f"{where}: {label!r}: federation.name={experiment.federation.name}: the runs of "
            "a sweep are local, one core each"
        )
    return SweepJob(label, method, seed, setting.source, overrides, experiment, setting.paper)


def _check_names(folders: Sequence[Path], where: str) -> None:
    """Two runs in one folder would be one: names that differ in odd characters alone do not do."""
    seen = set()
    for folder in folders:
        if folder in seen:
            raise UserError(
                f"{where}: two runs would be called {folder}: options and names are the same"
            )
        seen.add(folder)


def slug(name: str) -> str:
    """A name for folders.

    >>> slug("CIFAR-10, IID (0.8, 0.5)")
    'CIFAR-10-IID-0.8-0.5'
    """
    plain = re.sub(r"[^A-Za-z0-9.-]+", "-", name).strip("-.")
    return plain[:LONGEST] or "x"


def typed(value: Any) -> str:
    """A value as it is typed after `key=`.

    >>> typed(True), typed("iid"), typed("1"), typed(["a", 0.5])
    ('true', 'iid', '"1"', '["a", 0.5]')
    """
    if isinstance(value, str) and parsed(f"key={value}")[1] == value:
        return value
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {_inner(each)}" for key, each in value.items()) + "}"
    return _inner(value)


def _inner(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_inner(each) for each in value) + "]"
    if isinstance(value, Mapping):
        return typed(value)
    return json.dumps(value, ensure_ascii=False)  # texts, numbers, true and false are the same

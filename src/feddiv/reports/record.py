"""A run as its folder tells it: finished or not, of this version or an earlier one.

Nothing in it is imported or trusted: a number that is none is not there.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy.typing as npt

from feddiv.config.sections import EVALUATIONS
from feddiv.core.errors import UserError
from feddiv.core.files import Unreadable, json_object, read_json, read_regular
from feddiv.core.given_files import SMALL, at_home, open_regular
from feddiv.core.toml import NotToml, parse_toml
from feddiv.data import Draw
from feddiv.methods.registry import METHODS, file_name, full_name, short_names
from feddiv.runs.curve import WARMUP
from feddiv.runs.finished_check import check_assessment
from feddiv.runs.journal import Record
from feddiv.runs.run_folder import LARGEST, RunFolder
from feddiv.runs.summary import accuracies

ENDS: Final = ("mean_last10", "best", "last")
MOST_LINES: Final = 1_000_000  # of rounds.jsonl
LONGEST: Final = 1 << 26  # bytes of a line


@dataclass(frozen=True)
class Visits:
    """What clients.jsonl tells: each client's last visit with an opinion, and who was left out."""

    last: Mapping[int, Record] = field(default_factory=dict)
    refused: int = 0
    missing: int = 0
    why: str = ""  # the last reply was refused
    # Models that did not count, or counted turned round, as they were against the others'.
    left_out: int = 0
    turned_back: int = 0


@dataclass(frozen=True)
class RunRecord:
    """A run's folder. `label` tells it from others on the same page, `method` gives its colour.

    `summary` is empty where the run has not ended, `assessment` also where clients kept theirs.
    """

    folder: Path
    method: str
    label: str
    config: Mapping[str, Any]
    toml: str
    rounds: Sequence[Record]
    visits: Visits = field(default_factory=Visits)
    summary: Mapping[str, Any] = field(default_factory=dict)
    assessment: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    draw: Draw | None = None
    environment: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        """Whether the run came to its end."""
        return bool(self.summary)

    @property
    def measure(self) -> str:
        """The accuracy by which it is judged."""
        evaluation = EVALUATIONS.get(str(self.setting("evaluation.name")))
        return "test_accuracy" if evaluation is None else evaluation.measure

    @property
    def believes(self) -> bool:
        """Whether there is an accuracy on believed labels beside that on the given ones."""
        return any(number(line.get("believed_accuracy")) is not None for line in self.rounds)

    @property
    def rounds_asked(self) -> int | None:
        """How many rounds it shall have."""
        asked = self.config.get("rounds")
        return asked if type(asked) is int else None

    @cached_property
    def spent(self) -> list[float]:
        """Communication rounds spent at each line."""
        return [number(line.get("round")) or 0.0 for line in self.rounds]

    @property
    def warmup(self) -> float:
        """The round with which warm-up is over; 0 where there was none."""
        pairs = zip(self.spent, self.rounds, strict=True)
        return max((spent for spent, line in pairs if line.get("stage") in WARMUP), default=0.0)

    def setting(self, key: str) -> Any:
        """A value of the config by its dotted key; None where it has none."""
        value: Any = self.config
        for part in key.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        return value

    def column(self, key: str) -> list[float | None]:
        """A number of every line, by a dotted key such as filter.f1."""
        first, _, second = key.partition(".")
        values = (line.get(first) for line in self.rounds)
        if second:
            values = (each.get(second) if isinstance(each, Mapping) else None for each in values)
        return [number(value) for value in values]

    def total(self, key: str) -> float | None:
        """A number of summary.json, by a dotted key."""
        first, _, second = key.partition(".")
        value = self.summary.get(first)
        if second:
            value = value.get(second) if isinstance(value, Mapping) else None
        return number(value)

    @cached_property
    def accuracy(self) -> dict[str, float | None]:
        """Its accuracy: `best`, `last`, and `mean_last10` after warm-up, so far or at its end."""
        measure = self.measure
        if self.ended:
            return {end: self.total(f"{end}_{measure}") for end in ENDS}
        keys = (measure, "held_out_samples")
        lines = [{**line, **{key: number(line.get(key)) for key in keys}} for line in self.rounds]
        found = accuracies(measure, [line for line in lines if line[measure] is not None])
        return {end: found[f"{end}_{measure}"] for end in ENDS}

    @property
    def best_round(self) -> float | None:
        """The round in which it was best."""
        if self.ended:
            return self.total("best_round")
        pairs = zip(self.spent, self.column(self.measure), strict=True)
        return next((spent for spent, value in pairs if value == self.accuracy["best"]), None)

    @cached_property
    def classes(self) -> list[str]:
        """Names of the classes; their numbers where the run has not ended."""
        names = self.summary.get("classes")
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            return names
        counts = (len(listed(line.get("per_class_accuracy"))) for line in self.rounds)
        return [str(place) for place in range(max(counts, default=0))]


def number(value: object) -> float | None:
    """A finite number, or None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 1e300 and math.isfinite(value) else None


def listed(value: object) -> list[float | None]:
    """A list of numbers, empty for anything else."""
    return [number(each) for each in value] if isinstance(value, list) else []


def read_runs(folders: Sequence[str | Path]) -> list[RunRecord]:
    """The runs in these folders, each followed by those that it was compared with."""
    if not folders:
        raise UserError("name the folder of a run")
    records: list[RunRecord] = []
    for folder in dict.fromkeys(at_home(each) for each in folders):
        run = _read(folder)
        records += [run, *(_read(rival) for rival in _rivals(run))]
    return _labelled(records)


def _rivals(run: RunRecord) -> list[Path]:
    """Folders of the runs that it is compared with, in the order of its config."""
    place, named = run.folder / "against", run.config.get("against")
    if not place.is_dir() or place.is_symlink():
        return []
    order = [file_name(str(name)) for name in named] if isinstance(named, list) else []
    found = sorted(each for each in place.iterdir() if (each / "config.toml").is_file())
    own = [each for each in found if not each.is_symlink()]
    return sorted(own, key=lambda e: order.index(e.name) if e.name in order else len(order))


def _read(folder: Path) -> RunRecord:
    file = folder / "config.toml"
    if not folder.is_dir():
        raise UserError(f"{folder}: there is no such folder")
    if not file.is_file():
        raise UserError(f"{folder}: holds no run (config.toml is missing)")
    try:
        toml = read_regular(file, SMALL).decode()
        config = parse_toml(toml)
    except (Unreadable, NotToml, UnicodeDecodeError) as problem:
        raise UserError(f"{file}: cannot be read ({problem})") from None
    if not isinstance(config.get("method"), dict) or "rounds" not in config:
        raise UserError(f"{folder}: holds no run (config.toml names no method and rounds)")
    opened = RunFolder.reading(folder)
    summary = opened.summary() if opened.ended else {}
    if summary.get("rounds") != config["rounds"]:  # it goes on: what an earlier end left is old
        summary = {}
    ended = bool(summary) and (folder / "assessment.npz").exists()
    assessment = opened.assessment() if ended else {}
    if assessment:
        check_assessment(folder / "assessment.npz", assessment, summary)
    draw = folder / "draw.npz"
    return RunRecord(
        folder=folder,
        method=_method(config),
        label="",
        config=config,
        toml=toml,
        rounds=[line for line in _lines(folder / "rounds.jsonl", MOST_LINES) if "round" in line],
        visits=_visits(folder / "clients.jsonl"),
        summary=summary,
        assessment=assessment,
        draw=_checked(Draw.load(draw), draw) if draw.exists() else None,
        environment=_environment(folder / "environment.json"),
    )


def _method(config: Mapping[str, Any]) -> str:
    """The method's name with its variant; nothing is imported for it."""
    method = config["method"]
    name, variant = str(method.get("name")), str(method.get("variant", "default"))
    if name in METHODS:
        return full_name(name, variant)
    return name if variant == "default" else f"{name}-{variant}"


def _lines(file: Path, most: int) -> Iterator[Record]:
    """The lines of a journal; the last may be one that is being written."""
    if not file.exists():
        return
    try:
        with open_regular(file) as opened:
            for count, line in enumerate(iter(lambda: opened.readline(LONGEST), b"")):
                if len(line) == LONGEST:
                    raise Unreadable(f"line {count + 1} is longer than {LONGEST:,} bytes")
                if not line.endswith(b"\n"):
                    return
                if count == most:
                    raise Unreadable(f"has more than {most:,} lines")
                yield json_object(line)
    except OSError as problem:
        raise UserError(f"{file}: {problem.strerror or problem}") from None
    except Unreadable as problem:
        raise UserError(f"{file}: {problem}") from None


def _visits(file: Path) -> Visits:
    last: dict[int, Record] = {}
    counts, why = {"refused": 0, "missing": 0, "left_out": 0, "turned_back": 0}, ""
    for line in _lines(file, 100 * MOST_LINES):
        if "introduction" in line:  # who is missing there may still train
            continue
        client, sums = line.get("client"), line.get("stage") == "hello"
        for key in counts:
            counts[key] += key in line and not (sums and key == "left_out")
        if "refused" in line:
            why = f"client {client}, round {line.get('round')}: {line['refused']}"
        if type(client) is int and ("noise_level" in line or "clean" in line):
            last[client] = line
    return Visits(last, **counts, why=why)


def _environment(file: Path) -> dict[str, Any]:
    try:
        return read_json(file, LARGEST)
    except Unreadable:
        return {}


def _checked(draw: Draw, file: Path) -> Draw:
    """Refuse parts of a draw that are not in it."""
    for part in draw.parts:
        if len(part) and (part.min() < 0 or part.max() >= len(draw.given)):
            raise UserError(f"draw {file}: damaged, a client holds a sample that is not there")
    return draw


def _labelled(records: Sequence[RunRecord]) -> list[RunRecord]:
    """The same with names that differ: by seed where that tells them apart, else by folder."""
    short = short_names({record.method for record in records})
    names = [
        short[each.method] + ("*" if each.summary.get("changed_options") else "")
        for each in records
    ]
    seeds = [f"{name}, seed {r.config.get('seed')}" for name, r in zip(names, records, strict=True)]
    folders = [f"{name}, {_place(r)}" for name, r in zip(names, records, strict=True)]
    labels = []
    for place, name in enumerate(names):
        choices = (names, seeds, folders)
        unique = [each[place] for each in choices if each.count(each[place]) == 1]
        labels.append(unique[0] if unique else f"{name}, {records[place].folder}")
    return [replace(each, label=label) for each, label in zip(records, labels, strict=True)]


def _place(record: RunRecord) -> str:
    """The folder of the experiment as a whole."""
    folder = record.folder
    return (folder.parent.parent if folder.parent.name == "against" else folder).resolve().name

"""Result rows: what is kept of a run when its folder is gone, a line of JSON each.

A row is known by the options that its run was made with, not by what somebody called it: so a run
that is needed in two tables is made once, and a row whose options are not today's counts for none.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from feddiv.config.experiment import Experiment
from feddiv.config.reading import load_experiment
from feddiv.core.errors import UserError
from feddiv.core.files import Lock, Unreadable, json_object, read_regular
from feddiv.core.import_path import named_in
from feddiv.core.terminal import NAME, shown
from feddiv.data import Draw
from feddiv.reports.record import number
from feddiv.runs.run_folder import RunFolder

LARGEST: Final = 1 << 30  # bytes of a file of rows
SEEDS: Final = 1 << 63  # as many as an experiment can have
MOST: Final = 1e15  # no measure of a run is as large, and its square can still be worked with
# Options that change no number of a run: how often it is saved, what it is called, who looks on.
IDLE: Final = ("against", "checkpoint", "description", "track")
BEGINNING: Final = b'{"setting": '  # of each line
NEEDED: Final = ("setting", "method", "seed", "summary")


def fingerprint(experiment: Experiment, without: Iterable[str] = (), corrections: str = "") -> str:
    """Of all options that change a number, but for the sections `without`.

    `corrections` tells what the files of `data.corrections` say, which their paths do not.
    """
    tree = experiment.model_dump(mode="json", exclude={*IDLE, *without})
    if corrections:
        tree["corrections"] = corrections
    return hashlib.sha256(json.dumps(tree, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Row:
    """One finished run.

    `options` are all of its options, resolved; rows of long ago have none. `paper` names the cell
    of the paper's tables that the setting stands for, where that is not clear from the options.
    `corrections` is the digest of the experts' files that the run was begun with, if any.
    """

    setting: str
    method: str
    seed: int
    options: dict[str, Any]
    command: str
    date: str
    summary: dict[str, Any]
    test_accuracy: list[float | None] = field(default_factory=list)
    paper: str | None = None
    corrections: str = ""
    file: Path = field(default=Path(), compare=False)  # where it was read

    @classmethod
    def read(cls, tree: Mapping[str, Any], file: Path) -> "Row":
        """That of a line of JSON; Unreadable where it is none."""
        for key in NEEDED:
            if key not in tree:
                raise Unreadable(f"is no result row (it has no {key!r})")
        options, summary, seed = tree.get("options") or {}, tree["summary"], tree["seed"]
        curve, paper = tree.get("test_accuracy"), tree.get("paper")
        if not isinstance(summary, dict) or not isinstance(options, dict) or type(seed) is not int:
            raise Unreadable("is no result row (summary and options are tables, seed is a number)")
        if not 0 <= seed < SEEDS:
            raise Unreadable(
                f"is no result row (seed is {shown(str(seed), NAME)}, allowed is 0 to {SEEDS - 1})"
            )
        return cls(
            setting=str(tree["setting"]),
            method=str(tree["method"]),
            seed=seed,
            options=options,
            command=str(tree.get("command", "")),
            date=str(tree.get("date", "")),
            summary=summary,
            test_accuracy=[number(each) for each in curve] if isinstance(curve, list) else [],
            paper=paper if isinstance(paper, str) else None,
            corrections=str(tree.get("corrections", "")),
            file=file,
        )

    def as_json(self) -> dict[str, Any]:
        """What its line says."""
        keys = ("setting", "method", "seed", "options", "command", "date", "summary")
        tree = {key: getattr(self, key) for key in keys}
        if self.paper is not None:
            tree["paper"] = self.paper
        if self.corrections:
            tree["corrections"] = self.corrections
        return {**tree, "test_accuracy": self.test_accuracy}

    @cached_property
    def experiment(self) -> Experiment | None:
        """What it ran, as options are read today; None where they cannot be read any more.

        Keys that are new count as unset. Nothing is imported that only the row names.
        """
        if not self.options:
            return None
        try:
            with named_in(self.file, ()):
                return load_experiment(self.options)
        except UserError:
            return None

    @cached_property
    def made_by(self) -> str:
        """The fingerprint of its options; of some that nobody can read any more, one of its own."""
        if self.experiment is not None:
            return fingerprint(self.experiment, corrections=self.corrections)
        return _raw(self.options, self.setting, self.method, self.seed)

    @cached_property
    def setting_made_by(self) -> str:
        """The same without method and seed: rows that can be compared have this in common."""
        if self.experiment is not None:
            return fingerprint(_all_methods(self.experiment), ("method", "seed"), self.corrections)
        rest = {key: value for key, value in self.options.items() if key not in ("method", "seed")}
        return _raw({key: rest[key] for key in rest if key not in IDLE}, self.setting)

    @cached_property
    def method_made_by(self) -> str:
        """The same of the method alone."""
        if self.experiment is not None:
            return _raw(self.experiment.method.model_dump(mode="json"))
        return _raw(self.options.get("method", {}), self.method)

    def number(self, key: str) -> float | None:
        """A number of its summary, `filter.f1` for one inside."""
        value: Any = self.summary
        for part in key.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        found = number(value)
        return None if found is None or abs(found) > MOST else found


def _all_methods(experiment: Experiment) -> Experiment:
    """The experiment with as much warm-up as fits: a method without any keeps more in its options.

    A preset with fewer rounds has its warm-up shortened for those that would use it alone.
    """
    least = min(experiment.warmup.iterations, experiment.budget.most_warmup)
    warmup = experiment.warmup.model_copy(update={"iterations": least})
    return experiment.model_copy(update={"warmup": warmup})


def _raw(*parts: object) -> str:
    said = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(said.encode()).hexdigest()[:16]


def row_of(
    folder: Path,
    experiment: Experiment,
    *,
    setting: str,
    method: str,
    command: str,
    paper: str | None = None,
) -> Row:
    """The row of a run that came to its end in this folder."""
    run = RunFolder.reading(folder)
    corrected = experiment.data.corrections is not None
    accuracies = [number(line.get("test_accuracy")) for line in run.rounds()]
    ended = datetime.fromtimestamp((folder / "summary.json").stat().st_mtime, UTC)
    return Row(
        setting=setting,
        method=method,
        seed=experiment.seed,
        options=experiment.model_dump(mode="json", exclude_none=True),
        command=command,
        date=ended.date().isoformat(),
        summary=run.summary(),
        test_accuracy=[None if each is None else round(each, 4) for each in accuracies],
        paper=paper,
        corrections=Draw.load(folder / "draw.npz").corrections if corrected else "",
        file=folder,
    )


def read_rows(file: Path) -> list[Row]:
    """The rows of a file; a last line that was cut off by a crash is no row."""
    try:
        content = read_regular(file, LARGEST)
    except Unreadable as problem:
        raise UserError(f"{file}: {problem}") from None
    whole, _, rest = content.rpartition(b"\n")
    lines = whole.split(b"\n") if whole else []
    if rest and _is_json(rest):  # somebody's editor leaves out the last line break
        lines.append(rest)
    elif not whole:
        _check_cut_off(rest, file)
    rows = []
    for place, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            rows.append(Row.read(json_object(line), file))
        except Unreadable as problem:
            raise UserError(f"{file}, line {place}: {problem}") from None
    return rows


def _is_json(line: bytes) -> bool:
    try:
        json_object(line)
    except Unreadable:
        return False
    return True


def _check_cut_off(rest: bytes, file: Path) -> None:
    """Refuse a file whose one line never was a row: it would be taken away, and is somebody's.

    After a crash there may be zeros for what was not written yet.
    """
    if not BEGINNING.startswith(rest.partition(b"\0")[0][: len(BEGINNING)]):
        raise UserError(f"{file}: is no file of result rows (its first line is no row)")


def add_row(file: Path, row: Row) -> None:
    """Append a row, on the disk when this returns; what a crash had cut off is taken away.

    Sweeps may share a file: each waits until the row of another is whole.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o644)
    lock = None
    try:
        lock = Lock.of(file, wait=True)
        content = read_regular(file, LARGEST)
        rest = content.rpartition(b"\n")[2]
        end, before = len(content), b""
        if rest and _is_json(rest):
            before = b"\n"
        else:
            if rest == content:
                _check_cut_off(rest, file)
            end -= len(rest)
        os.ftruncate(descriptor, end)
        os.lseek(descriptor, end, os.SEEK_SET)
        line = before + json.dumps(row.as_json()).encode() + b"\n"
        while line:
            line = line[os.write(descriptor, line) :]
        os.fsync(descriptor)
    finally:
        if lock is not None:
            lock.release()
        os.close(descriptor)


def newest(rows: Iterable[Row]) -> dict[str, Row]:
    """The last row of each set of options."""
    return {row.made_by: row for row in rows if row.experiment is not None}

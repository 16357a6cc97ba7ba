"""Another number of rounds for a run that was begun: what it has done has to stay right.

A method plans its rounds from their number. More of them go on with the same bits, as if they had
been asked for at first, where the plan of those that are done is the same.
"""

import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from feddiv.config.experiment import Experiment
from feddiv.config.reading import load_experiment
from feddiv.core.errors import UserError
from feddiv.core.files import write_text
from feddiv.core.import_path import named_in
from feddiv.runs.checkpoint import Checkpoint
from feddiv.runs.prepare import Prepared
from feddiv.runs.recorder import checkpoints_of, identity_of
from feddiv.runs.run_folder import RunFolder


@dataclass(frozen=True)
class Course:
    """The turns of a run as its method plans them: stage, turn of the stage, rounds it is worth."""

    turns: tuple[tuple[str, int, float], ...]

    @classmethod
    def of(cls, experiment: Experiment) -> "Course":
        """That of an experiment."""
        stages = experiment.build_method().stages()
        return cls(
            tuple((each.name, turn, each.rounds) for each in stages for turn in range(each.turns))
        )

    def first(self, turns: int) -> "Course":
        """So many turns of it."""
        return Course(self.turns[:turns])

    @property
    def rounds(self) -> float:
        """Communication rounds that it takes."""
        return sum(rounds for _, _, rounds in self.turns)


def check_rounds(prepared: Prepared, path: Path, refused: Callable[[str], None]) -> None:
    """Refuse a number of rounds that the run in a folder cannot go on to; nothing is changed.

    `refused` is told of checkpoints that can't be used.
    """
    file = path / "config.toml"
    if not file.is_file() or rounds_asked(path) == prepared.experiment.rounds:
        return
    checkpoint = newest_checkpoint(prepared, path, refused)
    done, begun = (0, 0) if checkpoint is None else _progress(checkpoint)
    check_extension(load_begun(path), prepared.experiment, done, begun, path)


def _progress(checkpoint: Checkpoint) -> tuple[int, int]:
    """Turns that are done, and those that have at least begun."""
    done = checkpoint.cut.turn - 1
    return done, done + bool(checkpoint.cut.tallies)


def newest_checkpoint(
    prepared: Prepared, path: Path, refused: Callable[[str], None]
) -> Checkpoint | None:
    """Where the run in a folder goes on; None for the beginning, if it has nothing to lose."""
    checkpoint = checkpoints_of(prepared, path).latest(refused)
    if checkpoint is None and (path / "summary.json").is_file():
        raise UserError(
            f"rounds={prepared.experiment.rounds}: the run in {path} ended with fewer and has no "
            "checkpoint to go on from"
        )
    return checkpoint


def rounds_asked(path: Path) -> int:
    """How many rounds the run in a folder shall have by its config."""
    return load_begun(path).rounds


def load_begun(path: Path) -> Experiment:
    """The experiment of a run's folder, whose modules may not all be allowed."""
    file = path / "config.toml"
    with named_in(file):
        return load_experiment(file)


def check_extension(
    begun: Experiment, wanted: Experiment, done: int, started: int, where: Path
) -> None:
    """Refuse rounds that leave nothing to do, or with which past turns would have been others.

    Of its turns a run has `done` so many, and `started` perhaps one more.
    """
    before, after = Course.of(begun), Course.of(wanted)
    if done and len(after.turns) <= done:
        raise UserError(
            f"rounds={wanted.rounds}: the run in {where} has done {before.first(done).rounds:g}; "
            "ask for more"
        )
    key = planned_by(begun, wanted)
    if started and (key is not None or before.first(started) != after.first(started)):
        named = "its stages" if key is None else f"method.{key}"
        raise UserError(
            f"rounds={wanted.rounds}: {begun.method.name} plans {named} by the number of rounds; "
            f"those that the run in {where} has done would have been others; "
            f"run it anew: feddiv run {where / 'config.toml'} rounds={wanted.rounds}"
        )


def can_go_on(experiment: Experiment, rounds: int) -> bool:
    """Whether the finished run of an experiment can be given so many rounds."""
    longer = experiment.model_copy(update={"rounds": rounds})
    done = Course.of(experiment)
    same = Course.of(longer).first(len(done.turns)) == done
    return same and planned_by(experiment, longer) is None


def planned_by(begun: Experiment, wanted: Experiment) -> str | None:
    """The option that means another round when there are so many more rounds, if there is one."""
    for key in begun.build_method().shares_of_rounds:
        share = getattr(begun.method, key)
        if _switch(begun, share) != _switch(wanted, share):
            return key
    return None


def _switch(experiment: Experiment, share: float) -> int:
    """The round with which something begins after this share of them: the last at the latest."""
    return min(experiment.budget.part(share), experiment.rounds - 1)


def extend(prepared: Prepared, folder: RunFolder) -> None:
    """Write the new number of rounds into config.toml; a stop at any moment loses nothing.

    First the checkpoints become valid for both configs, then the config changes, at once.
    """
    file = folder.path / "config.toml"
    config = with_rounds(file.read_text(encoding="utf-8"), prepared.experiment.rounds, file)
    checkpoints_of(prepared, folder.path).also_of(identity_of(config.encode(), prepared))
    write_text(file, config)


def with_rounds(config: str, rounds: int, file: Path) -> str:
    """The text of a config.toml with another number of rounds, and every other byte as it was."""
    changed = re.sub(r"(?m)^rounds = \d+$", f"rounds = {rounds}", config, count=1)
    if tomllib.loads(changed) != {**tomllib.loads(config), "rounds": rounds}:
        raise UserError(f"{file}: has no line that says the number of rounds")
    return changed

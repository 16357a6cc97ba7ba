"""An experiment as a whole: its run, then the methods it is compared with on the same draw."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path

from torch import nn

from feddiv.config.experiment import (
    Experiment,
    changed_options,
    rival_titles,
    title,
    validated,
)
from feddiv.core.arrays import Weights
from feddiv.core.dotted import flat
from feddiv.core.errors import TooFew, UserError
from feddiv.core.import_path import named_in
from feddiv.data import DataWatcher, Draw, Loaded
from feddiv.data.draw.corrected import note_changes
from feddiv.methods.registry import file_name, full_name
from feddiv.runs.clients import as_settled
from feddiv.runs.extension import check_rounds, extend, load_begun, newest_checkpoint, rounds_asked
from feddiv.runs.journal import Record
from feddiv.runs.prepare import Prepared, fitted, prepare
from feddiv.runs.run import Carrier, Listener, Run, execute, finished_run
from feddiv.runs.run_folder import RunFolder
from feddiv.runs.tracking import Tracking, check_tracking

AGAINST = "against"  # in an experiment's folder: those of the methods it is compared with
PATIENCE = (
    "federation.",
    "checkpoint.",
    "description",
    "track",
)  # what may change when a run goes on
Afterwards = Callable[[Prepared, Run], None]
FIXED = ("federation.name", "federation.largest_site")  # and what of it may not


class Watcher(DataWatcher):
    """Somebody who is told how the runs go on; this one does not care."""

    def opens(self, path: Path) -> None:
        """The folder of the experiment as a whole."""

    def starts(self, name: str, prepared: Prepared, folder: RunFolder) -> None:
        """A run is about to start in this folder."""

    def refused(self, reason: str) -> None:
        """A checkpoint can't be used; the one before it is tried."""

    def goes_on(self, rounds: Sequence[Record]) -> None:
        """The run goes on after these rounds."""

    def turned(self, line: Record, weights: Weights) -> None:
        """A round of it is over, with this global model."""
        self.round(line)

    def round(self, line: Record) -> None:
        """The line of rounds.jsonl of a round that is over."""

    def ends(self, run: Run) -> None:
        """It is finished and written."""


def run_experiment(
    experiment: Experiment,
    folder: RunFolder,
    watcher: Watcher,
    *,
    brought: Loaded | None = None,
    carrier: Carrier,
    net: Callable[[], nn.Module] | None = None,
    notes: Sequence[str] = (),
    afterwards: Afterwards = lambda prepared, run: None,
) -> Run:
    """Run it, then each method of `against` in `folder/against/NAME`.

    Everything is prepared before anything is written, so a user's error leaves no trace. `brought`
    are data that no source loads, `carrier` says who carries the messages, `net` makes a net that
    the caller brings. The watcher gets the `notes` once a run is possible. `afterwards` is called
    when the run itself is written, before its rivals begin.
    """
    check_tracking(experiment)
    main = prepare(experiment, watcher=watcher, brought=brought, net=net)
    rivals = {
        name: (
            fitted(rival, main.dataset, main.draw, net=net),
            folder.inside(AGAINST, file_name(name)),
        )
        for name, rival in rivals_of(main.experiment).items()
    }
    for note in (*notes, *_left_out(experiment, rivals)):
        watcher.note(note)
    watcher.opens(folder.path)
    run = _started(title(experiment), main, folder, watcher, carrier)
    afterwards(main, run)
    called = rival_titles(experiment, rivals)
    against = {
        name: _started(called[name], *rival, watcher, carrier) for name, rival in rivals.items()
    }
    return replace(run, against=against)


def resume_experiment(
    path: Path,
    watcher: Watcher,
    *,
    brought: Loaded | None = None,
    carrier: Carrier,
    net: Callable[[], nn.Module] | None = None,
    wanted: Experiment | None = None,
    new_rounds: bool = False,
    allow: Collection[str] = (),
    afterwards: Afterwards = lambda prepared, run: None,
) -> Run:
    """Go on with what is in a run's folder: its run, then the methods it is compared with.

    What came to its end is read, not repeated; what never began is begun. `wanted` is what the
    caller would run: it has to be what was begun, but how long to wait for whom may be new, and
    with `new_rounds` the number of rounds. `allow` are import paths that the folder may name.
    """
    folder = RunFolder.existing(path)
    watcher.opens(path)
    try:
        with named_in(path / "config.toml", allow):
            experiment = load_begun(path)
            if wanted is not None:
                if new_rounds:
                    experiment = experiment.model_copy(update={"rounds": wanted.rounds})
                experiment = as_begun(experiment, wanted, path)
            if brought is not None and experiment.data.source != "python":
                raise UserError(f"{path}: loads its own data ({experiment.data.source}); give none")
            check_tracking(experiment)
            draw = Draw.load(path / "draw.npz")
            if experiment.data.corrections is not None:
                note_changes(draw, experiment.data.corrections, watcher)
            prepared = prepare(experiment, draw, watcher, brought, net)
            others = path / AGAINST
            rivals = {
                name: fitted(rival, prepared.dataset, prepared.draw, begun=True, net=net)
                for name, rival in rivals_of(experiment, others).items()
            }
            check_rounds(prepared, path, watcher.refused)
            for name, rival in rivals.items():
                check_rounds(rival, others / file_name(name), watcher.refused)
            run = _resumed(title(experiment), prepared, folder, watcher, carrier)
            afterwards(prepared, run)
            called = rival_titles(experiment, rivals)
            against = {
                name: _taken_up(called[name], rival, others / file_name(name), watcher, carrier)
                for name, rival in rivals.items()
            }
    finally:
        folder.unlock()
    return replace(run, against=against)


def as_begun(begun: Experiment, wanted: Experiment, path: Path) -> Experiment:
    """What was begun, with the patience that is wanted now; refused where more would change."""
    if wanted.model.sha256 is None:  # the file that it began with need not be there any more
        model = wanted.model.model_copy(update={"sha256": begun.model.sha256})
        wanted = wanted.model_copy(update={"model": model})
    wanted = wanted.model_copy(update={"data": wanted.data.as_resolved(begun.data)})
    wanted = as_settled(wanted, named=begun.partition.name == "natural")
    before, now = flat(begun.model_dump()), flat(wanted.from_anywhere().model_dump())
    for key in sorted({*before, *now}):
        free = key.startswith(PATIENCE) and key not in FIXED
        if not free and before.get(key) != now.get(key):
            raise UserError(
                f"{key}={now.get(key)}: the run in {path} was begun with {before.get(key)}; give "
                "the same to go on with it"
            )
    return begun.model_copy(
        update={
            "federation": wanted.federation,
            "checkpoint": wanted.checkpoint,
            "track": wanted.track,
        }
    )


def _taken_up(
    name: str,
    prepared: Prepared,
    place: Path,
    watcher: Watcher,
    carrier: Carrier,
) -> Run:
    """A rival's run, from where it stands."""
    if not (place / "config.toml").is_file():
        return _started(name, prepared, RunFolder(place), watcher, carrier)
    folder = RunFolder.existing(place)
    try:
        return _resumed(name, prepared, folder, watcher, carrier)
    finally:
        folder.unlock()


def rivals_of(experiment: Experiment, begun: Path | None = None) -> dict[str, Experiment]:
    """The experiments of `against`, but for the run's own variant: that is the run again.

    One that was `begun` in this folder, when options made another run of it, goes on.
    """
    rivals = {name: as_rival(experiment, name) for name in experiment.against}
    return {
        name: rival
        for name, rival in rivals.items()
        if _variant(rival) != _variant(experiment)
        or (begun is not None and (begun / file_name(name) / "config.toml").is_file())
    }


def _left_out(experiment: Experiment, rivals: Collection[str]) -> list[str]:
    """A line for each name of `against` that is the run itself although it has options set."""
    options = changed_options(experiment).items()
    changed = ", ".join(f"method.{key}={value}" for key, value in options)
    return [
        f"against: {name!r} is the run itself, with {changed}; it is run once"
        for name in experiment.against
        if changed and name not in rivals
    ]


def as_rival(experiment: Experiment, name: str) -> Experiment:
    """The same experiment with the method or variant of this name, and no comparison."""
    return validated({**experiment.model_dump(), "method": {"name": name}, "against": ()})


def _variant(experiment: Experiment) -> str:
    return full_name(experiment.method.name, experiment.method.variant)


def _started(
    name: str,
    prepared: Prepared,
    folder: RunFolder,
    watcher: Watcher,
    carrier: Carrier,
) -> Run:
    watcher.starts(name, prepared, folder)
    try:
        folder.begin(prepared.experiment, prepared.draw)
        with Tracking(prepared.experiment, folder.path, watcher.note) as tracked:
            tracked.open()
            run = execute(prepared, folder, _told(watcher, tracked), carrier=carrier)
            tracked.summary(run.summary)
    except (UserError, TooFew) as problem:
        if isinstance(problem, UserError) or not folder.journals():  # nobody ever came
            folder.discard()
        raise
    finally:
        folder.unlock()
    watcher.ends(run)
    return run


def _resumed(
    name: str,
    prepared: Prepared,
    folder: RunFolder,
    watcher: Watcher,
    carrier: Carrier,
) -> Run:
    rounds = prepared.experiment.rounds
    if rounds_asked(folder.path) != rounds:
        extend(prepared, folder)
    if folder.ended and folder.summary().get("rounds") == rounds:
        return finished_run(prepared.experiment, folder)
    watcher.starts(name, prepared, folder)
    checkpoint = newest_checkpoint(prepared, folder.path, watcher.refused)

    def ready() -> None:
        # Without a checkpoint it was stopped before the first one: from the beginning.
        folder.goes_on({} if checkpoint is None else checkpoint.standing.journals)
        done = folder.rounds()
        tracked.open(done)
        watcher.goes_on(done)

    with Tracking(prepared.experiment, folder.path, watcher.note) as tracked:
        run = execute(
            prepared,
            folder,
            _told(watcher, tracked),
            checkpoint=checkpoint,
            carrier=carrier,
            ready=ready,
        )
        tracked.summary(run.summary)
    watcher.ends(run)
    return run


def _told(watcher: Watcher, tracked: Tracking) -> Listener:
    """Whoever watches hears of a round, and then the tracker."""

    def listener(line: Record, weights: Weights) -> None:
        watcher.turned(line, weights)
        tracked.round(line)

    return listener

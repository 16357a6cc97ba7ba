"""An experiment as a whole: its run, then the methods it is compared with on the same draw."""

from dataclasses import replace

from feddiv.config import Experiment, changed_options, validated
from feddiv.errors import UserError
from feddiv.runs.loop import Record
from feddiv.runs.record import RunFolder
from feddiv.runs.run import Prepared, Run, execute, fitted, prepare


class Watcher:
    """Somebody who is told how the runs go on; this one does not care."""

    def starts(self, name: str, prepared: Prepared, folder: RunFolder) -> None:
        """A run is about to start in this folder."""

    def round(self, line: Record) -> None:
        """A round of it is over: its line of rounds.jsonl."""

    def ends(self, run: Run) -> None:
        """It is finished and written."""


def run_experiment(experiment: Experiment, folder: RunFolder, watcher: Watcher) -> Run:
    """Run it, then each method of `against` in `folder/against/NAME`.

    Everything is prepared before anything is written, so a user's error leaves no trace.
    """
    main = prepare(experiment)
    rivals = {
        name: (fitted(rival, main.dataset, main.draw), folder.inside("against", _as_folder(name)))
        for name in experiment.against
        if (rival := as_rival(experiment, name)).method != experiment.method
    }
    run = _watched(title(experiment), main, folder, watcher)
    against = {name: _watched(name, *rival, watcher) for name, rival in rivals.items()}
    return replace(run, against=against)


def as_rival(experiment: Experiment, name: str) -> Experiment:
    """The same experiment with the method "name" or "name:variant", and no comparison."""
    method, _, variant = name.partition(":")
    chosen = {"name": method, "variant": variant} if variant else {"name": method}
    return validated({**experiment.model_dump(), "method": chosen, "against": ()})


def title(experiment: Experiment) -> str:
    """The method as `against` would name it; a star where options differ from the variant's."""
    name, variant = experiment.method.name, experiment.method.variant
    star = "*" if changed_options(experiment) else ""
    return (name if variant == "default" else f"{name}:{variant}") + star


def _as_folder(name: str) -> str:
    return name.replace(":", "-")  # no colon in the names of files on Windows


def _watched(name: str, prepared: Prepared, folder: RunFolder, watcher: Watcher) -> Run:
    watcher.starts(name, prepared, folder)
    try:
        run = execute(prepared, folder, watcher.round)
    except UserError:
        folder.discard()
        raise
    watcher.ends(run)
    return run

"""`run` and `resume`: train, and go on after a stop."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from feddiv.core.errors import UserError
from feddiv.core.given_files import at_home

if TYPE_CHECKING:
    from feddiv.config.experiment import Experiment
    from feddiv.config.reading import Overrides, Source
    from feddiv.data.sources.python import Clients, ClientSamples
    from feddiv.federation.federation import Federation
    from feddiv.runs.prepare import Prepared
    from feddiv.runs.run import Carrier, Run
    from feddiv.runs.run_folder import RunFolder
    from feddiv.runs.start_and_resume import Watcher


def run(
    experiment: "Source | None" = None,
    overrides: "Overrides" = (),
    *,
    out: str | Path | None = None,
    workers: int | None = None,
    watcher: "Watcher | None" = None,
    clients: "Clients | None" = None,
    test: "ClientSamples | None" = None,
    classes: "Sequence[str] | None" = None,
) -> "Run":
    """Train, compare with the methods of `against` on the same draw, and write it all down.

    `experiment` is a preset's name, a TOML file, a tree of values or an `Experiment`; without one
    it is `quickstart`, and `own` for data of your own. `overrides` are `{"noise.rho": 0.5}` or
    `["noise.rho=0.5"]`. Without `out`, the run gets a new folder under `runs/`. `workers` are
    processes, by default one per core, with 0 none but this one; the result is the same for any
    number. Raises `UserError`, with nothing written, if the run is not possible. Without a
    `watcher`, what you should know of a run that is possible comes as a warning, `feddiv.Note`.

    `clients` brings data along: a list with one set of samples for each client, or a mapping from
    clients' names to them. A set is a torch or Hugging Face data set or a list, with items (image
    or vector, label) or dicts of the two; a pair of arrays (X, y); or a data frame. One frame with
    a column `client` is all clients at once. All of them take part in every round unless
    clients.fraction says otherwise. `test` is one more set, not needed with
    evaluation.name=held_out; `classes` names the classes.

    Examples:
        >>> run = feddiv.run("quickstart", {"rounds": 20}, out="runs/first")  # doctest: +SKIP
        >>> run.summary["filter"]["f1"], run.column("test_accuracy")  # doctest: +SKIP
        >>> feddiv.load(run.folder).predict(images)  # doctest: +SKIP
    """
    from feddiv.audits.runs import leave_lists
    from feddiv.config.own_data import load_with_clients, usual_preset, without_test
    from feddiv.config.reading import as_settings, load_experiment
    from feddiv.data.sources.python import brought
    from feddiv.methods.registry import file_name, full_name
    from feddiv.reports.report import save_results
    from feddiv.runs.run_folder import RunFolder
    from feddiv.runs.start_and_resume import run_experiment
    from feddiv.runs.warnings_watcher import WarningsWatcher

    notes: list[str] = []
    settings = as_settings(overrides)
    if experiment is None:
        chosen = usual_preset([settings.get("data.source")])
        experiment = chosen if clients is None else "own"
    if clients is None:
        settled = load_experiment(experiment, settings, note=notes.append)
    else:
        settled = load_with_clients(experiment, settings, notes.append)
    data = brought(clients, test, classes, settled.data)
    if data is not None and not len(data.test) and without_test(experiment, settings):
        notes = ["no test samples: clients keep some of theirs out (evaluation.name=held_out)"]
        settings = {**settings, "evaluation.name": "held_out"}
        settled = load_with_clients(experiment, settings, notes.append)
    preset = "experiment"
    if isinstance(experiment, str | Path):
        preset = Path(experiment).name.removesuffix(".toml")
    method = file_name(full_name(settled.method.name, settled.method.variant))
    label = f"{preset}-{method}-seed{settled.seed}"
    _check_federation(settled, workers)
    if out is not None and str(out) in ("", "."):
        raise UserError(f"--out {str(out)!r}: name a folder of its own for the run")
    folder = RunFolder.new(label) if out is None else RunFolder(at_home(out))
    result = run_experiment(
        settled,
        folder,
        watcher or WarningsWatcher(),
        brought=data,
        carrier=_carrier(_checked(workers)),
        notes=notes,
        afterwards=leave_lists,
    )
    save_results(result)
    return result


def resume(
    path: str | Path,
    changes: "Overrides" = (),
    *,
    workers: int | None = None,
    watcher: "Watcher | None" = None,
    clients: "Clients | None" = None,
    test: "ClientSamples | None" = None,
    classes: "Sequence[str] | None" = None,
    allow: Collection[str] = (),
) -> "Run":
    """Go on with the run in a folder, from its last checkpoint to its end, with the same bits.

    A run that came to its end is read, not repeated, unless `changes` ask for more rounds:
    `{"rounds": 60}` or `["rounds=60"]`. Data that were brought along have to be brought again.
    `allow` are import paths ("package.module:name" of a net, a method or noise) that the run's
    config may name: importing is running code, and the folder may be somebody else's. What was
    named before in this session needs no second word. Notes are warnings, as for `run`.
    """
    from feddiv.audits.runs import leave_lists
    from feddiv.config.reading import load_experiment
    from feddiv.core.import_path import named_in
    from feddiv.data.sources.python import brought
    from feddiv.reports.report import is_drawn, save_results
    from feddiv.runs.start_and_resume import resume_experiment
    from feddiv.runs.warnings_watcher import WarningsWatcher

    folder = at_home(path)
    config, wanted = folder / "config.toml", None
    with named_in(config, allow):
        if changes and config.is_file():  # where it is not, there is no run to go on with
            wanted = load_experiment(config, changes)
        own = clients is not None and config.is_file()
        options = load_experiment(config).data if own else None
    result = resume_experiment(
        folder,
        watcher or WarningsWatcher(),
        brought=brought(clients, test, classes, options),
        carrier=_carrier(_checked(workers)),
        wanted=wanted,
        new_rounds=True,
        allow=allow,
        afterwards=leave_lists,
    )
    if not is_drawn(result):
        save_results(result)
    return result


def _check_federation(experiment: "Experiment", workers: int | None) -> None:
    """Refuse at once what cannot carry the run's messages."""
    if experiment.federation.name == "flower_simulation":
        from feddiv.flower.ray_simulation import check_simulation

        check_simulation(experiment.data.source, workers)
    elif experiment.federation.name != "local":
        raise UserError(
            f"federation.name={experiment.federation.name}: is for the server app, which "
            "flwr run starts (docs/deployment.md); here it is local or flower_simulation"
        )


def _carrier(workers: int | None) -> "Carrier":
    """Who carries a run's messages, as its own config says."""
    from feddiv.runs.run import on_this_machine

    def carrier(prepared: "Prepared", folder: "RunFolder") -> "Federation":
        _check_federation(prepared.experiment, workers)
        if prepared.experiment.federation.name == "local":
            return on_this_machine(workers)(prepared, folder)
        from feddiv.flower.ray_simulation import simulated

        return simulated(prepared, folder)

    return carrier


def _checked(workers: int | None) -> int | None:
    if workers is not None and workers < 0:
        raise UserError(f"workers={workers}: must be 0 (in this process) or more")
    return workers

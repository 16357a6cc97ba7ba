"""Federated learning when labels can't be trusted.

The verbs of the command line: `run` trains and compares, `resume` goes on after a stop, `sweep`
runs methods × settings × seeds, `table` sums them up, `reproduce` makes the paper's tables again,
`report` makes a page of runs, `load` gives a trained model, `audit` says which labels look wrong,
`NoiseFilter` finds wrong labels from per-client scores alone.
"""

from collections.abc import Collection, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from feddiv.core.errors import Note, UserError
from feddiv.core.given_files import at_home

if TYPE_CHECKING:
    from feddiv.audits.label_audit import LabelAudits
    from feddiv.config.experiment import Experiment
    from feddiv.config.reading import Overrides, Source, load_experiment
    from feddiv.data.sources.python import Clients, ClientSamples
    from feddiv.federation.federation import Federation
    from feddiv.learning.score import label_scores
    from feddiv.methods.feddiv.filter import FilterOptions, NoiseFilter
    from feddiv.runs.model import TrainedModel
    from feddiv.runs.prepare import Prepared
    from feddiv.runs.run import Carrier, Run
    from feddiv.runs.run_folder import RunFolder
    from feddiv.runs.start_and_resume import Watcher
    from feddiv.tables.reproduce import Reproduced
    from feddiv.tables.sweep import SweepWatcher, Swept
    from feddiv.tables.verb import Format

    __version__: str

__all__ = [
    "Experiment",
    "FilterOptions",
    "LabelAudits",
    "NoiseFilter",
    "Note",
    "Run",
    "SweepWatcher",
    "Swept",
    "TrainedModel",
    "UserError",
    "Watcher",
    "__version__",
    "audit",
    "label_scores",
    "load",
    "load_experiment",
    "report",
    "reproduce",
    "resume",
    "run",
    "sweep",
    "table",
]

# Imported when first asked for: they bring torch, which takes seconds.
_HOMES = {
    "Experiment": "feddiv.config.experiment",
    "load_experiment": "feddiv.config.reading",
    "FilterOptions": "feddiv.methods.feddiv.filter",
    "NoiseFilter": "feddiv.methods.feddiv.filter",
    "label_scores": "feddiv.learning.score",
    "LabelAudits": "feddiv.audits.label_audit",
    "Run": "feddiv.runs.run",
    "SweepWatcher": "feddiv.tables.sweep",
    "Swept": "feddiv.tables.sweep",
    "TrainedModel": "feddiv.runs.model",
    "Watcher": "feddiv.runs.start_and_resume",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib import metadata

        return metadata.version("feddiv")
    if name not in _HOMES:
        raise AttributeError(f"module 'feddiv' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


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


def report(
    *runs: "str | Path | Run",
    out: str | Path | None = None,
    figures: str | Path | None = None,
) -> Path:
    """Make one HTML page of runs, by their folders, with those they were compared with.

    It needs nothing beside it and asks nothing of the network. Without `out`, the page of one run
    is `report.html` in its folder, that of several in this one. `figures` names a folder for the
    same figures as SVG and PDF. Gives the path of the page.
    """
    from feddiv.reports.report import save_report

    folders = [each if isinstance(each, str | Path) else each.folder for each in runs]
    return save_report(folders, out, figures)


def sweep(
    sweep: "str | Path | Mapping[str, Any]",
    *,
    out: str | Path | None = None,
    jobs: int | None = None,
    ray: str | None = None,
    dry_run: bool = False,
    watcher: "SweepWatcher | None" = None,
) -> "Swept":
    """Run methods × settings × seeds of a sweep's file, or of a tree with the same keys.

    What is finished is not repeated, what was stopped goes on from its checkpoint; a run that fails
    is in `failed` of what comes back, and the others go on. Without `out` the sweep's folder is
    `sweeps/NAME`. `jobs` are runs at the same time, by default one per core; `ray` is the address
    of a Ray cluster. With `dry_run` nothing is run: `plan` says what is left.

    Examples:
        >>> import feddiv
        >>> plan = feddiv.sweep(
        ...     {"settings": ["quickstart"], "methods": ["fedavg", "feddiv"], "seeds": [0, 1]},
        ...     dry_run=True,
        ... ).plan
        >>> len(plan.left), plan.left[0].title
        (4, 'quickstart, fedavg, seed 0')
    """
    from feddiv.tables.sweep import sweep as run_sweep

    return run_sweep(sweep, out=out, jobs=jobs, ray=ray, dry_run=dry_run, watcher=watcher)


def table(
    *places: str | Path,
    format: "Format" = "md",
    paper: bool = False,
    show: str = "all",
) -> str:
    """Make a table of runs: mean±std over seeds, the best in bold, as Markdown, CSV or LaTeX.

    `places` are folders of sweeps or of runs, and files of result rows. With `paper` the number
    that the paper has is beside ours. `show` is "all", one measure ("best", "last", "last ten",
    "filter F1") for methods × settings, or "seeds" for every seed by itself.
    """
    from feddiv.tables.verb import table_of

    return table_of(places, format, paper=paper, show=show)


def reproduce(
    study: str,
    scale: str = "tiny",
    *,
    methods: "Sequence[str] | None" = None,
    seeds: str | None = None,
    out: str | Path | None = None,
    jobs: int | None = None,
    ray: str | None = None,
) -> "tuple[Swept, Reproduced]":
    """Make a table or figure of the paper again: "table1" to "table5", "figure-filter", ….

    `scale` is "tiny" (digits), "laptop", "features" or "paper". `seeds` is "3" for so many of the
    scale's seeds, or "30,31" or "30-32" for these. Gives the sweep, and what was written of it: the
    table as `text`, the `page` of figures.
    """
    from feddiv.tables.reproduce import reproduce as made_again

    folder = None if out is None else at_home(out)
    return made_again(study, scale, methods=methods, seeds=seeds, out=folder, jobs=jobs, ray=ray)


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


def load(
    path: str | Path, *, allow: Collection[str] = (), encoder: str | None = None
) -> "TrainedModel":
    """The trained model of a run's folder (its last round), or of one .safetensors file.

    `allow` are import paths ("package.module:factory") of a net, a method or an encoder that the
    file may name, as for `resume`. `encoder` says where the encoder is now, if the model was
    trained on the features of one that is a file and has moved.
    """
    from feddiv.runs.model import load_model

    return load_model(at_home(path), allow, encoder)


def audit(
    run: "str | Path | Run | None" = None,
    *,
    data: "str | Path | Sequence[str | Path] | None" = None,
    model: "Any | None" = None,
    probabilities: "Sequence[Any] | None" = None,
    labels: "Sequence[Any] | None" = None,
    samples: "Sequence[Any] | None" = None,
    classes: "Sequence[str] | None" = None,
    clients: "Clients | None" = None,
    test: "ClientSamples | None" = None,
    allow: Collection[str] = (),
) -> "LabelAudits":
    """Which labels look wrong, for each site by itself; nothing is written.

    Of a `run` (its folder, or what `feddiv.run` gave): the labels of its clients. With `data`, one
    path or several: labels that were not in it, judged by the run's model and filter. Data that
    were brought along as `clients` have to be brought again.

    Without a run, sites that have a classifier already exchange the filter alone: `model` is a
    folder or file for `feddiv.load` with `data`, or any torch net with `samples`, for each site an
    array of what the net eats, and `labels`; or they give `probabilities`, for each site an array
    [n, C], and `labels` [n], class numbers or names from `classes`.

    What comes back has an entry for each site: its `table`, `is_label_issue`, `ranking` (the
    worst first) and `estimate` (share of wrong labels, from `low` to `high`). `audits.table` is all
    of it, as a data frame where pandas is installed.

    Examples:
        >>> import feddiv, numpy as np
        >>> sure, unsure = [0.98, 0.02], [0.02, 0.98]
        >>> site = np.array([sure] * 30 + [unsure] * 30)
        >>> given = np.array([0] * 27 + [1] * 33)  # three of them wrong
        >>> audits = feddiv.audit(probabilities=[site, site], labels=[given, given])
        >>> audits[0].is_label_issue.sum(), sorted(audits[0].ranking[:3].tolist())
        (np.int64(3), [27, 28, 29])
    """
    from feddiv.audits.verb import audits

    return audits(
        run if run is None or isinstance(run, str | Path) else run.folder,
        data=data,
        model=model,
        probabilities=probabilities,
        labels=labels,
        samples=samples,
        classes=classes,
        clients=clients,
        test=test,
        allow=allow,
    )

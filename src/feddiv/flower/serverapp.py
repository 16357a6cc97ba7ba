"""The ServerApp: from Flower's run config to our round loop on its Grid."""

import logging
import secrets
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid
from flwr.superlink.grid import InMemoryGrid  # that of a simulation

from feddiv.config.experiment import Experiment
from feddiv.config.reading import CHOICES, load_experiment, parsed
from feddiv.config.sections import Flower
from feddiv.core.arrays import StateDict
from feddiv.core.dotted import flat
from feddiv.core.errors import Diverged, TooFew, UserError
from feddiv.core.import_path import named_in
from feddiv.core.terminal import LINE, shown
from feddiv.flower.grid_federation import FlowerFederation
from feddiv.reports.report import save_results
from feddiv.runs.journal import Record
from feddiv.runs.prepare import Prepared
from feddiv.runs.privacy_summary import privacy_lines
from feddiv.runs.run import Carrier, Run
from feddiv.runs.run_folder import RunFolder
from feddiv.runs.start_and_resume import Watcher, resume_experiment, run_experiment

OURS = (
    "preset",
    "config",
    "out",
    "resume",
    "allow",
    "settings",
)  # keys of the run config that are no settings
WHERE = ("out", "resume", "allow")  # of these, those that say where a run is, not what it is
IMPLIED = {"federation.name": "flower"}
EXPECTED = (UserError, TooFew, Diverged)  # what a run may end with and its operator can mend


def serve(grid: Grid, context: Context) -> Run:
    """Run, or go on with, the experiment that the run config describes."""
    watcher = Lines()
    try:
        return _served(grid, dict(context.run_config), watcher)
    except EXPECTED as problem:
        watcher.say(f"error: {problem}")
        logging.getLogger("flwr").addFilter(_without_traces)
        raise


def _without_traces(record: logging.LogRecord) -> bool:
    """Flower logs where an error was raised; for these the line that was said is enough."""
    if record.exc_info and isinstance(record.exc_info[1], EXPECTED):
        record.exc_info = None
    return True


def _served(grid: Grid, run: Mapping[str, Any], watcher: "Lines") -> Run:
    out = str(run.get("out", ""))
    if not out:
        raise UserError('run config: out="…" has to name the folder of the run, at the server')
    folder = Path(out).expanduser()
    carrier = on_grid(grid, watcher)
    if run.get("resume"):
        given = {key: each for key, each in run.items() if key not in WHERE and each != ""}
        # Settings are changes of what was begun, unless they come with an experiment.
        changes = bool(given) and not {"config", "preset"} & given.keys()
        allow = str(run.get("allow", "")).split()
        if changes:
            given["config"] = str(folder / "config.toml")
            with named_in(folder / "config.toml", allow):
                wanted: Experiment | None = experiment_of(given)
        else:
            wanted = experiment_of(given) if given else None
        result = resume_experiment(
            folder, watcher, carrier=carrier, wanted=wanted, new_rounds=changes, allow=allow
        )
    else:
        place = RunFolder(folder, again="resume=true in the run config")
        result = run_experiment(experiment_of(run, watcher.note), place, watcher, carrier=carrier)
    save_results(result)
    for line in closing_lines(result):
        watcher.say(line)
    return result


def on_grid(grid: Grid, lines: "Lines", initial: StateDict | None = None) -> Carrier:
    """Messages go over this Grid; the first model begins with the `initial` weights."""

    def federation(prepared: Prepared, folder: RunFolder) -> FlowerFederation:
        experiment = prepared.experiment
        options = experiment.federation
        if not isinstance(options, Flower):
            options = Flower()
        if not prepared.draw.parts and options.sites is None:
            raise UserError("federation.sites: say how many sites have to be there to begin")
        # Not a draw of the experiment: it tells this run's files at the sites from other runs'.
        token = secrets.token_hex(16)
        built = FlowerFederation(
            grid,
            prepared.workspace,
            experiment,
            options,
            token,
            lines.say,
            initial=initial,
            keyed=not isinstance(grid, InMemoryGrid),
        )
        lines.site = built.seats.name
        return built

    return federation


def experiment_of(
    run: Mapping[str, Any], note: Callable[[str], None] = lambda line: None
) -> Experiment:
    """The experiment of a run config: a preset or a file, and settings by flat keys."""
    preset, config = str(run.get("preset", "")), str(run.get("config", ""))
    if preset and config:
        raise UserError(f"run config: preset={preset!r} and config={config!r}: give one of them")
    source = Path(config).expanduser() if config else preset or None
    given = {key: value for key, value in run.items() if key not in OURS and value != ""}
    settings = dict(parsed(item) for item in shlex.split(str(run.get("settings", ""))))
    for known in (CHOSEN, None):
        if known is None:  # which keys there are depends on what was chosen
            # (A rule for noise levels brings none, and would be refused without its own.)
            choices = set(CHOICES) - {"noise.levels"}
            chosen = {key: value for key, value in settings.items() if key in choices}
            known = flat_keys(load_experiment(source, chosen, IMPLIED))
        for key in [key for key in given if key in known]:
            value = given.pop(key)
            if settings.setdefault(known[key], value) != value:
                raise UserError(f"run config: {key} and settings say different things; give one")
    if given:
        raise UserError(
            f"run config {min(given)}: is unknown; allowed are {', '.join(OURS)} and settings "
            "such as rounds, method-name, train-lr"
        )
    return load_experiment(source, settings, IMPLIED, note)


def flat_keys(experiment: Experiment) -> dict[str, str]:
    """Flat keys and the dotted ones that they stand for."""
    dotted = flat(experiment.model_dump())
    return {_flat(key): key for key in dotted}


def _flat(key: str) -> str:
    return key.replace(".", "-").replace("_", "-")


CHOSEN = {_flat(key): key for key in CHOICES}


class Lines(Watcher):
    """Progress as lines in the server's log."""

    site: Callable[[int], str] = staticmethod(str)  # what a client is called

    def say(self, line: str) -> None:
        """One line; what sites wrote does nothing to it."""
        print(f"feddiv: {shown(line, LINE)}", flush=True)

    def note(self, line: str) -> None:
        """About the data."""
        self.say(line)

    def refused(self, reason: str) -> None:
        """About a checkpoint."""
        self.say(reason)

    def goes_on(self, rounds: Any) -> None:
        """About a run that was begun."""
        self.say(f"goes on after {len(rounds)} turns")

    def round(self, line: Record) -> None:
        """About a round."""
        accuracy = line["test_accuracy"]
        kind = "test"
        if accuracy is None:
            accuracy, kind = line.get("held_out_accuracy"), "held-out"
        measured = "" if accuracy is None else f", {kind} accuracy {accuracy:.1%}"
        if line.get("believed_accuracy") is not None:
            measured += f", on believed labels {line['believed_accuracy']:.1%}"
        missing = ", ".join(map(self.site, dict.fromkeys(line["missing"])))
        absent = f", did not answer: {missing}" if missing else ""
        self.say(f"round {line['round']} ({line['stage']}){measured}{absent}")


def closing_lines(run: Run) -> list[str]:
    """The end of a run in words."""
    summary, measure = run.summary, run.experiment.evaluation.measure
    last = summary[f"last_{measure}"]
    accuracy = f"{measure.replace('_', ' ')} {'unknown' if last is None else f'{last:.1%}'}"
    flagged = summary["flagged"]
    share = "" if flagged is None else f", {flagged:.1%} of the labels look wrong"
    return [
        f"finished: {accuracy}{share}",
        *privacy_lines(summary),
        f"written to {run.folder}",
    ]

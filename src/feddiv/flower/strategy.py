"""Any method of feddiv as a strategy of Flower: its `start` is feddiv's own round loop."""

from collections.abc import Callable, Mapping, Sequence
from logging import INFO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

from flwr.app import ArrayRecord, ConfigRecord, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp import strategy as flower
from flwr.supercore.logger import log
from torch import nn

from feddiv.config.experiment import Experiment
from feddiv.config.reading import Overrides, load_experiment, parsed
from feddiv.core.arrays import StateDict, Weights
from feddiv.core.errors import UserError
from feddiv.core.files import Unreadable, load_tensors, save_tensors
from feddiv.core.import_path import path_of
from feddiv.core.randomness import Streams
from feddiv.federation.federation import Federation
from feddiv.flower.serverapp import Lines, on_grid
from feddiv.methods.contract import Method
from feddiv.runs.evaluate import HeldOutEvaluation
from feddiv.runs.journal import Record
from feddiv.runs.model import by_model
from feddiv.runs.prepare import Prepared
from feddiv.runs.run import Carrier, Run
from feddiv.runs.run_folder import RunFolder
from feddiv.runs.start_and_resume import resume_experiment, run_experiment

Evaluate = Callable[[int, ArrayRecord], MetricRecord | None]
HEAD = ("turn", "round", "stage")
INITIAL = "initial.safetensors"  # what a run began with, should it have to begin again
# As in Flower's FedAvg all nodes train in every round, unless the settings say otherwise.
USUAL: Mapping[str, Any] = {"clients.fraction": 1.0, "evaluation.name": "held_out"}


class Strategy(flower.Strategy):
    """A method ("feddiv", "fedcorr", "feddiv-paper", …) for a Flower app with its own net and data.

    `method` may also be a class of the app's own; its `client_app` is given the same. `model` makes
    the app's net, `classes` names the classes in order or is their number, `input_shape` is that of
    one sample as the net gets it. A run begins when `sites` nodes are there. `settings` are
    feddiv's, by dotted keys: {"train.lr": 0.01, "warmup.iterations": 2}. `out` is the folder of the
    run, with its journals and models; without it nothing is kept. With `resume` the run in it goes
    on from its last checkpoint.
    """

    def __init__(
        self,
        method: str | type[Method[Any, Any]] = "feddiv",
        *,
        model: Callable[[], nn.Module],
        classes: Sequence[str] | int,
        input_shape: Sequence[int],
        sites: int,
        settings: Overrides = (),
        out: str | Path | None = None,
        resume: bool = False,
    ) -> None:
        names = [str(n) for n in range(classes)] if isinstance(classes, int) else list(classes)
        self.method = method if isinstance(method, str) else path_of(method)
        self.model = model
        self.out, self.resume = None if out is None else Path(out).expanduser(), resume
        if resume and out is None:
            raise UserError("resume=True: out= has to name the folder of the run to go on with")
        self.settings: dict[str, Any] = dict(
            settings if isinstance(settings, Mapping) else map(parsed, settings)
        )
        self.implied = {
            "federation.name": "flower",
            "federation.sites": sites,
            "partition.name": "natural",
            "data.source": "sites",
            "data.classes": names,
            "data.shape": list(input_shape),
            "model.name": _name(model),
            "against": (),
        }
        if self.settings.setdefault("method.name", self.method) != self.method:
            raise UserError(f"method.name={self.settings['method.name']}: it is {self.method} here")

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Evaluate | None = None,
    ) -> flower.Result:
        """Run the method from these weights; `evaluate_fn` is called before and after each round.

        Keys of the result and numbers of `evaluate_fn` count feddiv's turns: a turn of warm-up in
        which everybody trains one after the other is one.
        """
        for name, config in (("train_config", train_config), ("evaluate_config", evaluate_config)):
            if config:
                raise UserError(
                    f"{name}: clients are told by Strategy(settings={{...}}); leave {name} out"
                )
        experiment = self._experiment(num_rounds, float(timeout), own=evaluate_fn is not None)
        self.summary()
        initial = dict(initial_arrays.to_torch_state_dict())
        watcher = _Rounds(evaluate_fn, initial, begins=not self.resume)
        carrier = _begun_with(initial, grid, watcher)
        with TemporaryDirectory(prefix="feddiv-") as scratch:
            path = self.out or Path(scratch) / "run"
            if self.resume:
                run = resume_experiment(
                    path, watcher, carrier=carrier, net=self.model, wanted=experiment
                )
            else:
                folder = RunFolder(path, again="Strategy(resume=True)")
                run = run_experiment(experiment, folder, watcher, carrier=carrier, net=self.model)
            return _result(run, initial, watcher.evaluated)

    def _experiment(self, rounds: int, timeout: float, *, own: bool) -> Experiment:
        """Where somebody else evaluates, clients do so only at the end."""
        settings = {**USUAL, "evaluation.every": rounds if own else 1, **self.settings}
        implied = {**self.implied, "rounds": rounds, "federation.round_timeout": timeout}
        return load_experiment(None, settings, implied)

    def summary(self) -> None:
        """Log what is going to run."""
        given = {key: value for key, value in self.settings.items() if key != "method.name"}
        said = ", ".join(f"{key}={value}" for key, value in given.items())
        log(INFO, "feddiv: %s%s", self.method, f" ({said})" if said else "")

    def configure_train(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Not used."""
        self._refuse("configure_train")

    def aggregate_train(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Not used."""
        self._refuse("aggregate_train")

    def configure_evaluate(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Not used."""
        self._refuse("configure_evaluate")

    def aggregate_evaluate(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Not used."""
        self._refuse("aggregate_evaluate")

    def _refuse(self, name: str) -> NoReturn:
        raise UserError(f"{name}: feddiv.flower.Strategy has rounds of its own; call start()")


class _Rounds(Lines):
    """Lets the app evaluate: the first weights of a run, and those after each round."""

    def __init__(self, evaluate: Evaluate | None, initial: StateDict, *, begins: bool) -> None:
        self.evaluate, self.initial, self.begins = evaluate, initial, begins
        self.evaluated: dict[int, MetricRecord] = {}

    def starts(self, name: str, prepared: Prepared, folder: RunFolder) -> None:
        """Before the first round, or before it goes on."""
        if self.begins:
            self._evaluate(0, {"net": self.initial})
        else:
            self.initial = _kept(folder, self.initial) or self.initial

    def goes_on(self, rounds: Sequence[Record]) -> None:
        """About a run that was begun, and may not have got far."""
        super().goes_on(rounds)
        if not rounds:
            self._evaluate(0, {"net": self.initial})

    def turned(self, line: Record, weights: Weights) -> None:
        """After a round."""
        self.round(line)
        self._evaluate(line["turn"], weights)

    def _evaluate(self, turn: int, weights: Weights) -> None:
        if self.evaluate is None:
            return
        metrics = self.evaluate(turn, _first(weights, self.initial))
        if metrics is not None:
            self.say(f"evaluation after round {turn}: {dict(metrics)}")
            self.evaluated[turn] = metrics


def _result(run: Run, initial: StateDict, evaluated: Mapping[int, MetricRecord]) -> flower.Result:
    """A run as Flower's strategies tell of it."""
    models = by_model(load_tensors(run.folder / "model.safetensors")[0])
    _check_fits(initial, models[min(models)])
    result = flower.Result(arrays=_first(models, initial))
    result.evaluate_metrics_serverapp.update(evaluated)
    for line in run.rounds:
        measured = {key: line.get(key) for key in HeldOutEvaluation.measures}
        if found := _numbers(measured):
            result.evaluate_metrics_clientapp[line["turn"]] = MetricRecord(found)
        rest = {key: each for key, each in line.items() if key not in (*measured, *HEAD)}
        result.train_metrics_clientapp[line["turn"]] = MetricRecord(_numbers(rest))
    return result


def _first(weights: Weights, initial: StateDict) -> ArrayRecord:
    """Of several models the one that began with the app's own weights, in the app's order.

    (Files have an order of their own, and so has what was read from one.)
    """
    first = weights[min(weights)]
    return ArrayRecord({key: first[key].cpu() for key in initial})


def _numbers(line: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in line.items() if isinstance(value, int | float)}


def _begun_with(initial: StateDict, grid: Grid, watcher: Lines) -> Carrier:
    """Over this grid, from these weights, or from those that the run was begun with."""

    def federation(prepared: Prepared, folder: RunFolder) -> Federation:
        _check_fits(initial, prepared.workspace.make_model("net", Streams(0)))
        first = _kept(folder, initial)
        if first is None:
            save_tensors(folder.path / INITIAL, initial)
        return on_grid(grid, watcher, first or initial)(prepared, folder)

    return federation


def _kept(folder: RunFolder, like: StateDict) -> StateDict | None:
    """The weights that the run in this folder was begun with, in the order of these."""
    file = folder.path / INITIAL
    if not file.is_file():
        return None
    try:
        tensors, _ = load_tensors(file)
    except Unreadable as problem:
        raise UserError(f"{file}: {problem}") from None
    _check_fits(like, tensors)
    return {key: tensors[key] for key in like}


def _check_fits(initial: StateDict, fresh: StateDict) -> None:
    """Refuse weights of another net."""
    for key in sorted({*fresh, *initial}):
        shapes = [tuple(each[key].shape) if key in each else None for each in (initial, fresh)]
        if shapes[0] != shapes[1]:
            raise UserError(
                f"initial_arrays: {key} has the shape {shapes[0]}, that of model() {shapes[1]}"
            )


def _name(model: Callable[[], nn.Module]) -> str:
    """What to call somebody's own net: where it comes from."""
    return path_of(model if hasattr(model, "__qualname__") else type(model))

"""The experiment: one typed, immutable value, read from TOML and `key=value` overrides."""

import copy
import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, get_args

import tomli_w
from pydantic import BaseModel, BeforeValidator, Field, SerializeAsAny, ValidationError

from feddiv.data import NOISES, PARTITIONS, DataOptions, NoiseOptions, PartitionOptions
from feddiv.errors import UserError
from feddiv.learning.train import TrainOptions
from feddiv.methods.contract import Budget, Method, MethodOptions
from feddiv.methods.registry import (
    default_variant,
    full_name,
    method_class,
    split_name,
    variant_options,
)
from feddiv.nets import ModelOptions
from feddiv.nets.compute import Device, Precision
from feddiv.options import Options

# Choosing another of these drops the section's other options: they belong to the old choice.
CHOICES = ("method.name", "method.variant", "partition.name", "noise.name", "data.source")


class ClientsOptions(Options):
    """How many clients there are, and which share of them takes part in a round."""

    count: int = Field(10, ge=1)
    fraction: float = Field(0.5, gt=0, le=1)


class CheckpointOptions(Options):
    """How often a checkpoint is written: after an exchange, if so many seconds have passed."""

    seconds: float = Field(10.0, ge=0)


class EvaluateOptions(Options):
    """How often the model is measured on the test samples; after the last turn it always is."""

    every: int = Field(1, ge=1)


class WarmupOptions(Options):
    """Warm-up length, for methods that have one; an iteration visits every client once."""

    iterations: int = Field(0, ge=0)


_NAMED: Mapping[str, Mapping[str, type[Options]]] = {"partition": PARTITIONS, "noise": NOISES}


def _by_name(section: str) -> BeforeValidator:
    """Validate a section as the class that its `name` says."""
    classes = _NAMED[section]

    def validate(value: object) -> object:
        if not isinstance(value, Mapping):
            return value
        name = value.get("name")
        if not isinstance(name, str) or name not in classes:
            raise UserError(f"{section}.name={name!r} is unknown; allowed: {', '.join(classes)}")
        return classes[name].model_validate(value)

    return BeforeValidator(validate)


def _method(value: object) -> object:
    """Validate a method's options on top of those of its variant."""
    if not isinstance(value, Mapping):
        return value
    name = str(value.get("name"))
    options, variant = method_class(name).Options, str(value.get("variant", default_variant(name)))
    full: dict[str, Any] = {}
    for key, setting in variant_options(name, variant).items():
        _put(full, key.split("."), setting)
    return options.model_validate(_merged(full, value))


class Experiment(Options):
    """Everything that determines a run."""

    description: str = ""
    seed: int = Field(0, ge=0)
    rounds: int = Field(50, ge=1)
    # Methods ("fedavg") or variants ("feddiv-paper") to run after it on the same draw.
    # TOML has no tuples.
    against: tuple[str, ...] = Field(default=(), strict=False)
    method: Annotated[SerializeAsAny[MethodOptions], BeforeValidator(_method)]
    data: DataOptions = DataOptions()
    clients: ClientsOptions = ClientsOptions()
    partition: Annotated[SerializeAsAny[PartitionOptions], _by_name("partition")]
    noise: Annotated[SerializeAsAny[NoiseOptions], _by_name("noise")]
    model: ModelOptions = ModelOptions()
    train: TrainOptions = TrainOptions()
    warmup: WarmupOptions = WarmupOptions()
    evaluate: EvaluateOptions = EvaluateOptions()
    checkpoint: CheckpointOptions = CheckpointOptions()
    device: Device = "auto"
    precision: Precision = "fp32"
    compile: bool = False

    @property
    def budget(self) -> Budget:
        """What the method may spend."""
        return Budget(self.rounds, self.clients.fraction, self.warmup.iterations)

    def from_anywhere(self) -> "Experiment":
        """The same with absolute paths, so that it means the same in another folder."""
        paths = {
            key: path.expanduser().absolute()
            for key in ("path", "draw")
            if (path := getattr(self.data, key)) is not None
        }
        return self.model_copy(update={"data": self.data.model_copy(update=paths)})

    def build_method(self) -> Method[Any, Any]:
        """The method, ready to be asked."""
        return method_class(self.method.name)(self.method, self.train, self.budget)


DEFAULTS: Mapping[str, Any] = {
    "method": {"name": "feddiv"},
    "partition": {"name": "iid"},
    "noise": {"name": "none"},
}


Source = str | Path | Mapping[str, Any] | Experiment
Overrides = Iterable[str] | Mapping[str, Any]


def load_experiment(source: Source | None = None, overrides: Overrides = ()) -> Experiment:
    """The experiment of a preset, a TOML file or a tree of values, with overrides applied.

    Overrides are `key=value` texts, or a mapping from dotted keys to values.
    """
    given = {} if source is None else _tree(source)
    tree = _merged(copy.deepcopy(DEFAULTS), _method_spelt_out(given))
    if isinstance(overrides, str):
        raise UserError(f"overrides={overrides!r}: give a list, as in [{overrides!r}]")
    pairs = overrides if isinstance(overrides, Mapping) else map(_parsed, overrides)
    settings = _spelt_out(dict(pairs), "method.")
    for key, value in sorted(settings.items(), key=lambda pair: _precedence(pair[0])):
        _choose(tree, key, value) if key in CHOICES else _put(tree, key.split("."), value)
    return validated(tree)


def _precedence(key: str) -> int:
    """Choices first, in their order: a method is chosen before its variant, whatever was typed."""
    return CHOICES.index(key) if key in CHOICES else len(CHOICES)


def _method_spelt_out(tree: Mapping[str, Any]) -> dict[str, Any]:
    """The tree with `name = "feddiv-paper"` of its method as name and variant."""
    method = tree.get("method")
    return {**tree, "method": _spelt_out(method)} if isinstance(method, Mapping) else dict(tree)


def _spelt_out(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The same for settings of a method, whose keys begin with `prefix`."""
    name, chosen = settings.get(f"{prefix}name"), settings.get(f"{prefix}variant")
    if not isinstance(name, str):
        return dict(settings)
    method, variant = split_name(name)
    if variant is None:
        return dict(settings)
    if chosen not in (None, variant):
        raise UserError(
            f"method.name={name!r} and method.variant={chosen!r} contradict each other: "
            "give one of them"
        )
    return {**settings, f"{prefix}name": method, f"{prefix}variant": variant}


def validated(tree: Mapping[str, Any]) -> Experiment:
    """A tree of plain values as an experiment, or one line that says what is wrong with it."""
    tree = _method_spelt_out(tree)
    try:
        experiment = Experiment.model_validate(tree)
    except ValidationError as error:
        raise UserError(_one_line(error, tree)) from None
    budget, method = experiment.budget, experiment.build_method()
    if method.without_warmup is not None and not budget.warmup_iterations:
        raise UserError(
            f"warmup.iterations=0: {method.name} needs 1 or more, "
            f"without warm-up it is {method.without_warmup}"
        )
    if method.stages()[-1].turns < 1:
        raise UserError(
            f"warmup.iterations={budget.warmup_iterations} takes {budget.warmup_rounds} of "
            f"rounds={budget.rounds} (iterations / clients.fraction): leave at least one"
        )
    named = set()
    for other in experiment.against:
        name, variant = split_name(other, "against")
        full = full_name(name, variant or default_variant(name))
        if full in named:
            raise UserError(f"against: {other!r} is named twice")
        named.add(full)
    return experiment


def changed_options(experiment: Experiment) -> dict[str, Any]:
    """The method's options, by dotted key, that differ from those of its variant."""
    method = experiment.method
    plain = _method({"name": method.name, "variant": method.variant})
    assert isinstance(plain, MethodOptions)
    theirs = _flat(plain.model_dump())
    return {key: mine for key, mine in _flat(method.model_dump()).items() if mine != theirs[key]}


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    leaves: dict[str, Any] = {}
    for key, value in tree.items():
        nested = isinstance(value, Mapping)
        leaves |= _flat(value, f"{prefix}{key}.") if nested else {f"{prefix}{key}": value}
    return leaves


def to_toml(experiment: Experiment) -> str:
    """The resolved experiment as TOML; reading it back gives the same experiment."""
    return tomli_w.dumps(experiment.model_dump(mode="json", exclude_none=True))


def presets() -> dict[str, str]:
    """Preset names and their descriptions."""
    files = sorted(_preset_folder().iterdir(), key=lambda file: file.name)
    trees = {
        file.name.removesuffix(".toml"): tomllib.loads(file.read_text(encoding="utf-8"))
        for file in files
        if file.name.endswith(".toml")
    }
    return {name: tree.get("description", "") for name, tree in trees.items()}


def _preset_folder() -> Any:
    return resources.files("feddiv") / "presets"


def _tree(source: Source) -> dict[str, Any]:
    if isinstance(source, Experiment):
        return source.model_dump(mode="json", exclude_none=True)
    return _read(source) if isinstance(source, str | Path) else copy.deepcopy(dict(source))


def _read(source: str | Path) -> dict[str, Any]:
    path = Path(source)
    if source in presets():
        text = (_preset_folder() / f"{source}.toml").read_text(encoding="utf-8")
    elif path.suffix == ".toml" or path.exists():
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise UserError(f"config file {path}: {error.strerror or error}") from None
        except UnicodeDecodeError as error:
            raise UserError(f"config file {path} is not TOML: {error}") from None
    else:
        raise UserError(
            f"{str(source)!r} is no file and no preset; there are {', '.join(presets())}"
        )
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"config file {source} is not TOML: {error}") from None


def _parsed(item: str) -> tuple[str, Any]:
    key, equals, text = item.partition("=")
    if not equals or not key:
        raise UserError(f"{item!r} is not key=value, such as rounds=40 or noise.rho=0.8")
    try:
        return key, tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return key, text  # a bare word is a string


def _choose(tree: dict[str, Any], key: str, value: object) -> None:
    section, _, field = key.partition(".")
    current = tree.get(section, {})
    if not isinstance(current, dict) or current.get(field) == value:
        return
    kept = {"name": current["name"]} if field == "variant" and "name" in current else {}
    tree[section] = {**kept, field: value}


def _put(tree: dict[str, Any], path: list[str], value: object) -> None:
    *sections, last = path
    for section in sections:
        tree = tree.setdefault(section, {})
        if not isinstance(tree, dict):
            raise UserError(f"{'.'.join(path)}: {section} is a value, not a section")
    tree[last] = value


def _merged(base: Mapping[str, Any], top: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(base)
    for key, value in top.items():
        below = result.get(key)
        nested = isinstance(value, Mapping) and isinstance(below, Mapping)
        result[key] = _merged(below, value) if nested else value  # type: ignore[arg-type]
    return result


def _one_line(error: ValidationError, tree: Mapping[str, Any]) -> str:
    first, *more = error.errors()
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        text = f"{key} is an unknown key; allowed here: {', '.join(_siblings(first['loc'], tree))}"
    else:
        said = first["msg"].removeprefix("Value error, ")
        given = "" if isinstance(first["input"], Mapping) else f"={first['input']!r}"
        text = f"{key}{given}: {said}"
    return text + (f" (and {len(more)} more)" if more else "")


def _siblings(location: tuple[int | str, ...], tree: Mapping[str, Any]) -> list[str]:
    """The keys that are allowed where an unknown one was found."""
    model: type[BaseModel] = Experiment
    for part in location[:-1]:
        model = _section(model, str(part), tree)
    return list(model.model_fields)


def _section(model: type[BaseModel], field: str, tree: Mapping[str, Any]) -> type[BaseModel]:
    """The class of a section: by the name it holds where it has several."""
    if model is Experiment and field in ("method", "partition", "noise"):
        name = tree[field]["name"]
        return method_class(name).Options if field == "method" else _NAMED[field][name]
    annotation = model.model_fields[field].annotation
    kinds = [annotation, *get_args(annotation)]  # `Augment | None` is a section too
    return next(kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel))

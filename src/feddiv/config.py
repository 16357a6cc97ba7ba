"""The experiment: one typed, immutable value, read from TOML and `key=value` overrides."""

import copy
import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, get_args

import tomli_w
from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    SerializeAsAny,
    ValidationError,
    model_validator,
)

from feddiv.data import NOISES, PARTITIONS, DataOptions, NoiseOptions, PartitionOptions
from feddiv.errors import UserError
from feddiv.learning.train import TrainOptions
from feddiv.methods.contract import Budget, Method, MethodOptions
from feddiv.methods.registry import method_class, variant_options
from feddiv.nets import ModelOptions
from feddiv.nets.compute import Device, Precision
from feddiv.options import Options

# Choosing another of these drops the section's other options: they belong to the old choice.
CHOICES = ("method.name", "method.variant", "partition.name", "noise.name", "data.source")

DEALT_TO = 10  # clients, where nobody says how many


class ClientsOptions(Options):
    """How many clients there are, and which share of them takes part in a round.

    `count` None means as many as the data has, where the partition takes clients from the data.
    """

    count: int | None = Field(None, ge=1)
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
    options = method_class(str(value.get("name"))).Options
    variant = str(value.get("variant", options.model_fields["variant"].default))
    full: dict[str, Any] = {}
    for key, setting in variant_options(str(value["name"]), variant).items():
        _put(full, key.split("."), setting)
    return options.model_validate(_merged(full, value))


def _count(clients: object, partition: object) -> object:
    """Clients that are dealt to are ten, unless another number is set."""
    name = partition.get("name") if isinstance(partition, Mapping) else None
    if _is_natural(name) or not isinstance(clients, Mapping) or clients.get("count") is not None:
        return clients
    return {**clients, "count": DEALT_TO}


def _is_natural(name: object) -> bool:
    return isinstance(name, str) and name in PARTITIONS and PARTITIONS[name].natural


class Experiment(Options):
    """Everything that determines a run."""

    description: str = ""
    seed: int = Field(0, ge=0)
    rounds: int = Field(50, ge=1)
    # Methods ("name" or "name:variant") to run after it on the same draw. TOML has no tuples.
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

    @model_validator(mode="before")
    @classmethod
    def _counted(cls, tree: object) -> object:
        if not isinstance(tree, Mapping):
            return tree
        return {**tree, "clients": _count(tree.get("clients", {}), tree.get("partition"))}

    @property
    def budget(self) -> Budget:
        """What the method may spend."""
        return Budget(self.rounds, self.clients.fraction, self.warmup.iterations)

    def from_anywhere(self) -> "Experiment":
        """The same with absolute paths, so that it means the same in another folder."""
        anchored: Experiment = _absolute(self)
        return anchored

    def build_method(self) -> Method[Any, Any]:
        """The method, ready to be asked."""
        return method_class(self.method.name)(self.method, self.train, self.budget)


def _absolute(value: Any) -> Any:
    if isinstance(value, Path):
        return value.expanduser().absolute()
    if isinstance(value, tuple):
        return tuple(_absolute(item) for item in value)
    if isinstance(value, Options):
        return value.model_copy(update={key: _absolute(item) for key, item in value})
    return value


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
    tree = _merged(copy.deepcopy(DEFAULTS), {} if source is None else _tree(source))
    if isinstance(overrides, str):
        raise UserError(f"overrides={overrides!r}: give a list, as in [{overrides!r}]")
    pairs = overrides.items() if isinstance(overrides, Mapping) else map(_parsed, overrides)
    for key, value in sorted(pairs, key=lambda pair: _precedence(pair[0])):
        _choose(tree, key, value) if key in CHOICES else _put(tree, key.split("."), value)
    return validated(tree)


def _precedence(key: str) -> int:
    """Choices first, in their order: a method is chosen before its variant, whatever was typed."""
    return CHOICES.index(key) if key in CHOICES else len(CHOICES)


def validated(tree: Mapping[str, Any]) -> Experiment:
    """A tree of plain values as an experiment, or one line that says what is wrong with it."""
    try:
        experiment = Experiment.model_validate(tree)
    except ValidationError as error:
        raise UserError(_one_line(error, tree)) from None
    budget = experiment.budget
    if experiment.build_method().stages()[-1].turns < 1:
        raise UserError(
            f"warmup.iterations={budget.warmup_iterations} takes {budget.warmup_rounds} of "
            f"rounds={budget.rounds} (iterations / clients.fraction): leave at least one"
        )
    for place, other in enumerate(experiment.against):
        if other in experiment.against[:place]:
            raise UserError(f"against: {other!r} is named twice")
        name, _, variant = other.partition(":")
        variant_options(name, variant or method_class(name).Options.model_fields["variant"].default)
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
    tree = _read(source) if isinstance(source, str | Path) else copy.deepcopy(dict(source))
    base = tree.pop("base", None)
    return tree if base is None else _on_top(_base(base), tree)


def _base(name: object) -> dict[str, Any]:
    if not isinstance(name, str) or name not in presets():
        raise UserError(f"base={name!r} is no preset; there are {', '.join(presets())}")
    return _tree(name)


def _on_top(base: dict[str, Any], tree: Mapping[str, Any]) -> dict[str, Any]:
    """What `tree` says, and for the rest `base`; another choice drops the options of the old."""
    for key in CHOICES:
        section, _, field = key.partition(".")
        chosen = tree.get(section)
        if isinstance(chosen, Mapping) and field in chosen:
            _choose(base, key, chosen[field])
    return _merged(base, tree)


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
    natural = section == "partition" and _is_natural(value)
    if natural and isinstance(clients := tree.get("clients"), dict):
        clients.pop("count", None)  # it was a number to deal to; now the data has it


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
    value: Any = tree
    for part in location[:-1]:
        value = value[part]
        # A number is a place in the list of kinds of noise.
        named = isinstance(part, str)
        model = _section(model, str(part), value) if named else NOISES[value["name"]]
    return list(model.model_fields)


def _section(model: type[BaseModel], field: str, value: Any) -> type[BaseModel]:
    """The class of a section: by the name it holds where it has several."""
    if model is Experiment and field in ("method", "partition", "noise"):
        name = value["name"]
        return method_class(name).Options if field == "method" else _NAMED[field][name]
    if isinstance(value, list | tuple):
        return model
    annotation = model.model_fields[field].annotation
    kinds = [annotation, *get_args(annotation)]  # `Augment | None` is a section too
    return next(kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel))

"""The experiment: one typed, immutable value, read from TOML and `key=value` overrides."""

import copy
import tomllib
from collections.abc import Iterable, Mapping
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

from feddiv.config.sections import (
    EVALUATIONS,
    FEDERATIONS,
    Central,
    CheckpointOptions,
    ClientsOptions,
    EvaluationOptions,
    FederationOptions,
    Local,
    WarmupOptions,
)
from feddiv.core.dotted import flat, merged, put
from feddiv.core.errors import UserError
from feddiv.core.options import Options
from feddiv.data import NOISES, PARTITIONS, DataOptions, NoiseOptions, PartitionOptions
from feddiv.data.noise.noise_options import keys_of_other_rules
from feddiv.data.partition import DEALT_TO
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
from feddiv.presets import presets, read_toml

# Choosing another of these drops the section's other options: they belong to the old choice.
CHOICES = (
    "method.name",
    "method.variant",
    "partition.name",
    "noise.name",
    "noise.levels",
    "data.source",
    "model.name",
    "evaluation.name",
    "federation.name",
)
# But for these; another rule for noise levels drops the keys of other rules only.
KEPT = {"method.variant": ("name",), "evaluation.name": ("every",)}

_NAMED: Mapping[str, Mapping[str, type[Options]]] = {
    "partition": PARTITIONS,
    "noise": NOISES,
    "evaluation": EVALUATIONS,
    "federation": FEDERATIONS,
}


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
        put(full, key, setting)
    return options.model_validate(merged(full, value))


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
    evaluation: Annotated[SerializeAsAny[EvaluationOptions], _by_name("evaluation")] = Central()
    federation: Annotated[SerializeAsAny[FederationOptions], _by_name("federation")] = Local()
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
    "partition": {"name": "auto"},
    "noise": {"name": "none"},
    "evaluation": {"name": "central"},
    "federation": {"name": "local"},
}


Source = str | Path | Mapping[str, Any] | Experiment
Overrides = Iterable[str] | Mapping[str, Any]


def load_experiment(
    source: Source | None = None,
    overrides: Overrides = (),
    implied: Mapping[str, Any] | None = None,
) -> Experiment:
    """The experiment of a preset, a TOML file or a tree of values, with overrides applied.

    Overrides are `key=value` texts, or a mapping from dotted keys to values. What is `implied` by
    the way it is called holds too, and no override may say otherwise.
    """
    given = {} if source is None else _tree(source)
    tree = merged(copy.deepcopy(DEFAULTS), _method_spelt_out(given))
    if isinstance(overrides, str):
        raise UserError(f"overrides={overrides!r}: give a list, as in [{overrides!r}]")
    pairs = overrides if isinstance(overrides, Mapping) else map(parsed, overrides)
    settings = _spelt_out(dict(pairs), "method.")
    for key, value in (implied or {}).items():
        if settings.setdefault(key, value) != value:
            raise UserError(f"{key}={settings[key]}: it is {value} here; leave it out")
    for key, value in sorted(settings.items(), key=lambda pair: _precedence(pair[0])):
        _choose(tree, key, value) if key in CHOICES else put(tree, key, value)
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
    theirs = flat(plain.model_dump())
    return {key: mine for key, mine in flat(method.model_dump()).items() if mine != theirs[key]}


def to_toml(experiment: Experiment) -> str:
    """The resolved experiment as TOML; reading it back gives the same experiment."""
    return tomli_w.dumps(experiment.model_dump(mode="json", exclude_none=True))


def _tree(source: Source) -> dict[str, Any]:
    if isinstance(source, Experiment):
        return source.model_dump(mode="json", exclude_none=True)
    tree = read_toml(source) if isinstance(source, str | Path) else copy.deepcopy(dict(source))
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
    return merged(base, tree)


def parsed(item: str) -> tuple[str, Any]:
    """Key and value of a `key=value` text."""
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
    others = current.keys() - KEPT.get(key, ())
    dropped = keys_of_other_rules(value) if key == "noise.levels" else others
    kept = {other: current[other] for other in current if other not in dropped}
    tree[section] = {**kept, field: value}
    if section == "partition" and isinstance(clients := tree.setdefault("clients", {}), dict):
        if _is_natural(value):
            clients.pop("count", None)  # it was a number to deal to; now the data has it
        elif "deal_to" in current:
            clients.setdefault("count", current["deal_to"])


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
    if model is Experiment and (field == "method" or field in _NAMED):
        name = value["name"]
        return method_class(name).Options if field == "method" else _NAMED[field][name]
    if isinstance(value, list | tuple):
        return model
    annotation = model.model_fields[field].annotation
    kinds = [annotation, *get_args(annotation)]  # `Augment | None` is a section too
    return next(kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel))

"""The experiment: one typed, immutable value, and what makes it valid."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import tomli_w
from pydantic import (
    BeforeValidator,
    Field,
    SerializeAsAny,
    ValidationError,
    model_validator,
)

from feddiv.config.mistakes import one_line
from feddiv.config.private_filter import with_private_filter
from feddiv.config.section_classes import section_class
from feddiv.config.sections import (
    Central,
    CheckpointOptions,
    ClientsOptions,
    EvaluationOptions,
    FederationOptions,
    Local,
    RobustOptions,
    Track,
    WarmupOptions,
)
from feddiv.core.dotted import flat, merged, put
from feddiv.core.errors import UserError
from feddiv.core.options import Listed, Options
from feddiv.data import PARTITIONS, DataOptions, NoiseOptions, PartitionOptions
from feddiv.data.partition import DEALT_TO
from feddiv.data.sources import find_source
from feddiv.encoders.registry import find_encoder
from feddiv.learning.robust import CentreRule
from feddiv.learning.train import TrainOptions
from feddiv.methods.contract import Budget, Method, MethodOptions
from feddiv.methods.registry import (
    default_variant,
    file_name,
    full_name,
    method_class,
    short_names,
    split_name,
    variant_options,
)
from feddiv.nets import ModelOptions
from feddiv.nets.compute import Device, Precision
from feddiv.nets.net_options import check_net_name
from feddiv.privacy.conflicts import sends_totals
from feddiv.privacy.options import PrivacyOptions


def _by_name(section: str) -> BeforeValidator:
    """Validate a section as the class that its `name` says."""

    def validate(value: object) -> object:
        if not isinstance(value, Mapping):
            return value
        return section_class(section, value.get("name")).model_validate(value)

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
    if is_natural(name) or not isinstance(clients, Mapping) or clients.get("count") is not None:
        return clients
    return {**clients, "count": DEALT_TO}


def is_natural(name: object) -> bool:
    """Whether a partition of this name takes its clients from the data."""
    return isinstance(name, str) and name in PARTITIONS and PARTITIONS[name].natural


class Experiment(Options):
    """Everything that determines a run."""

    description: str = ""  # one line for `feddiv list presets`
    seed: int = Field(0, ge=0, lt=2**63)  # of every random draw: partition, noise, weights, batches
    rounds: int = Field(50, ge=1, le=1_000_000)  # communication rounds in all, warm-up included
    # Methods ("fedavg") or variants ("feddiv-paper") to run after it on the same draw.
    against: Annotated[tuple[str, ...], Field(strict=False), Listed] = ()
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
    robust: RobustOptions = RobustOptions()
    checkpoint: CheckpointOptions = CheckpointOptions()
    privacy: PrivacyOptions = PrivacyOptions()
    device: Device = "auto"  # auto takes a GPU where there is one
    precision: Precision = "fp32"  # bf16: convolutions and matrix products in bfloat16
    compile: bool = False  # the net, with torch.compile
    # Where the rounds' numbers go too; tensorboard: into the run's folder, mlflow: into ./mlruns.
    track: Track = "none"

    @model_validator(mode="before")
    @classmethod
    def _counted(cls, tree: object) -> object:
        if not isinstance(tree, Mapping):
            return tree
        return {**tree, "clients": _count(tree.get("clients", {}), tree.get("partition"))}

    @property
    def brings_predictions(self) -> bool:
        """Whether sites bring what classifiers of their own say, instead of samples."""
        return self.model.is_brought

    @property
    def budget(self) -> Budget:
        """What the method may spend."""
        return Budget(self.rounds, self.clients.fraction, self.warmup.iterations)

    def from_anywhere(self) -> "Experiment":
        """The same with absolute paths, so that it means the same in another folder."""
        anchored: Experiment = _absolute(self)
        return anchored.model_copy(update={"data": anchored.data.from_anywhere()})

    def build_method(self) -> Method[Any, Any]:
        """The method, ready to be asked."""
        method = method_class(self.method.name)(self.method, self.train, self.budget)
        method.centre = CentreRule(self.robust.filter, self.robust.trim)
        return method


def _absolute(value: Any) -> Any:
    if isinstance(value, Path):
        return value.expanduser().absolute()
    if isinstance(value, tuple):
        return tuple(_absolute(item) for item in value)
    if isinstance(value, Options):
        return value.model_copy(update={key: _absolute(item) for key, item in value})
    return value


def method_spelt_out(tree: Mapping[str, Any]) -> dict[str, Any]:
    """The tree with `name = "feddiv-paper"` of its method as name and variant."""
    method = tree.get("method")
    return {**tree, "method": spelt_out(method)} if isinstance(method, Mapping) else dict(tree)


def spelt_out(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
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


class NoWarmup(UserError):
    """The method is another one without warm-up."""


class NoRoundLeft(UserError):
    """Warm-up takes all rounds."""


def _check_brought(experiment: Experiment) -> None:
    """Refuse predictions where nobody could bring any, or where they would be changed."""
    if not experiment.brings_predictions:
        return
    for key, value, wanted in (
        ("data.source", experiment.data.source, "sites"),
        ("data.standardise", experiment.data.standardise, "source"),
    ):
        if value != wanted:
            raise UserError(f"model.name=predictions: goes with {key}={wanted}, it is {value}")


def validated(
    tree: Mapping[str, Any], note: Callable[[str], None] = lambda line: None
) -> Experiment:
    """A tree of plain values as an experiment, or one line that says what is wrong with it.

    `note` gets a line for every option that a private filter changes, and for a robust filter that
    has nothing to do.
    """
    tree = method_spelt_out(tree)
    try:
        experiment = Experiment.model_validate(tree)
    except ValidationError as error:
        raise UserError(one_line(error, tree, Experiment)) from None
    find_source(experiment.data.source)
    if experiment.data.encoder is not None:
        find_encoder(experiment.data.encoder)
    check_net_name(experiment.model.name)
    _check_brought(experiment)
    experiment = with_private_filter(experiment, note)
    budget, method = experiment.budget, experiment.build_method()
    if method.without_warmup is not None and not budget.warmup_iterations:
        raise NoWarmup(
            f"warmup.iterations=0: {experiment.method.name} needs 1 or more, "
            f"without warm-up it is {method.without_warmup}"
        )
    if method.stages()[-1].turns < 1:
        raise NoRoundLeft(
            f"warmup.iterations={budget.warmup_iterations} takes {budget.warmup_rounds} of "
            f"rounds={budget.rounds} (iterations / clients.fraction): leave at least one"
        )
    if experiment.robust.replaces_models and method.single_models:
        raise UserError(
            f"robust.weights={experiment.robust.weights}: {experiment.method.name} looks at the "
            "models of single clients, and would get their aggregate; allowed: mean, clip"
        )
    if experiment.robust.opposed != "left_out" and experiment.robust.weights != "aligned":
        raise UserError(
            f"robust.opposed={experiment.robust.opposed}: with "
            f"robust.weights={experiment.robust.weights} nobody looks where updates point; "
            "allowed: aligned"
        )
    if experiment.robust.substitutes and experiment.robust.weights != "aligned":
        raise UserError(
            f"robust.substitutes=true: with robust.weights={experiment.robust.weights} nobody is "
            "left out whose place others could take; allowed: aligned"
        )
    _note_hand_over(experiment, method, note)
    robust = experiment.robust.filter
    looks = method.takes_centres or sends_totals(method) or experiment.data.standardise == "clients"
    if robust != "sum" and not looks:
        note(
            f"robust.filter={robust} changes nothing: {experiment.method.name}, as it is set, has "
            "no filter that clients make together"
        )
    named = set()
    for other in experiment.against:
        name, variant = split_name(other, "against")
        full = file_name(full_name(name, variant or default_variant(name)))  # its folder's name
        if full in named:
            raise UserError(f"against: {other!r} is named twice")
        named.add(full)
    return experiment


def _note_hand_over(
    experiment: Experiment, method: Method[Any, Any], note: Callable[[str], None]
) -> None:
    """A line where models of a hand-over are bounded and not compared, and what would do that."""
    robust, clients = experiment.robust, experiment.clients.count or DEALT_TO
    compares = robust.introduces_every(clients) > 0
    if not robust.replaces_models or not method.hands_over or compares:
        return
    ways = []
    if robust.weights == "aligned" and not robust.introductions:
        ways.append("robust.introductions=5 compares all clients before it")
    if "warmup.mode" in flat(experiment.method.model_dump()):
        ways.append("method.warmup.mode=average warms up by averages")
    note(
        f"robust.weights={robust.weights}: in a hand-over, as in the warm-up of "
        f"{experiment.method.name}, there is nothing to compare a client's model with"
        + "".join(f"; {way}" for way in ways)
    )


def plain_method(name: str, variant: str) -> MethodOptions:
    """A variant with no option set on top of it."""
    plain = _method({"name": name, "variant": variant})
    assert isinstance(plain, MethodOptions)
    return plain


def changed_options(experiment: Experiment) -> dict[str, Any]:
    """The method's options, by dotted key, that differ from those of its variant."""
    method = experiment.method
    theirs = flat(plain_method(method.name, method.variant).model_dump())
    return {key: mine for key, mine in flat(method.model_dump()).items() if mine != theirs[key]}


def title(experiment: Experiment) -> str:
    """The method's name for tables; a star where its options differ from those of its variant."""
    star = "*" if changed_options(experiment) else ""
    own = full_name(experiment.method.name, experiment.method.variant)
    return short_names([own, *experiment.against])[own] + star


def rival_titles(experiment: Experiment, names: Iterable[str]) -> dict[str, str]:
    """Names for tables of methods that it is compared with."""
    own = full_name(experiment.method.name, experiment.method.variant)
    return short_names([own, *names])


def to_toml(experiment: Experiment) -> str:
    """The resolved experiment as TOML; reading it back gives the same experiment."""
    return tomli_w.dumps(experiment.model_dump(mode="json", exclude_none=True))

"""Reading an experiment: presets, TOML files, trees of values, `key=value` overrides."""

import copy
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from feddiv.config.experiment import (
    Experiment,
    NoRoundLeft,
    NoWarmup,
    is_natural,
    method_spelt_out,
    spelt_out,
    validated,
)
from feddiv.config.left_out import missed, set_options
from feddiv.core.did_you_mean import did_you_mean
from feddiv.core.dotted import flat, merged, put
from feddiv.core.errors import UserError
from feddiv.core.toml import Excessive, NotToml, parse_toml
from feddiv.data import DataOptions
from feddiv.data.noise.noise_options import DEFAULT_RULE, keys_of_other_rules
from feddiv.methods.registry import default_variant
from feddiv.nets import ModelOptions
from feddiv.presets import preset_names, read_toml

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
# Options that survive such a change. (noise.levels drops only the keys of the other rules.)
KEPT = {"method.variant": ("name",), "evaluation.name": ("every",)}

DEFAULTS: Mapping[str, Any] = {
    "method": {"name": "feddiv"},
    "partition": {"name": "auto"},
    "noise": {"name": "none"},
    "evaluation": {"name": "central"},
    "federation": {"name": "local"},
}
# What is chosen where nobody says so; for a variant it depends on the method.
UNSAID: Mapping[str, Any] = {
    **flat(DEFAULTS),
    "noise.levels": DEFAULT_RULE,
    "data.source": DataOptions().source,
    "model.name": ModelOptions().name,
}

Source = str | Path | Mapping[str, Any] | Experiment
Overrides = Iterable[str] | Mapping[str, Any]


def load_experiment(
    source: Source | None = None,
    overrides: Overrides = (),
    implied: Mapping[str, Any] | None = None,
    note: Callable[[str], None] = lambda line: None,
) -> Experiment:
    """The experiment of a preset, a TOML file or a tree of values, with overrides applied.

    Overrides are `key=value` texts, or a mapping from dotted keys to values. What is `implied` by
    the way it is called holds too, and no override may say otherwise. `note` gets a line for every
    override that leaves out options which the source sets for another choice.
    """
    given = {} if source is None else _tree(source)
    tree = merged(copy.deepcopy(DEFAULTS), given)
    settings = with_implied(spelt_out(as_settings(overrides), "method."), implied or {})
    left_out: dict[str, dict[str, Any]] = {}
    for key, value in sorted(settings.items(), key=lambda pair: _precedence(pair[0])):
        if key in CHOICES:
            left_out[key] = _choose(tree, key, value)
        else:
            put(tree, key, value)
    try:
        experiment = validated(tree, note)
    except NoRoundLeft as problem:
        shipped = isinstance(source, str) and source in preset_names()
        if not shipped or "rounds" not in settings or "warmup.iterations" in settings:
            raise
        experiment = _with_less_warmup(tree, problem, note)
    for key, options in left_out.items():
        lost = missed(options, experiment, settings)
        if lost:
            listed = ", ".join(lost)
            note(f"{key}={settings[key]} leaves out {listed}, set for what was chosen before")
    return experiment


def as_settings(overrides: Overrides) -> dict[str, Any]:
    """Overrides by dotted key."""
    if isinstance(overrides, str):
        raise UserError(f"overrides={overrides!r}: give a list, as in [{overrides!r}]")
    return dict(overrides if isinstance(overrides, Mapping) else map(parsed, overrides))


def with_implied(settings: Mapping[str, Any], implied: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by dotted key and what is implied; refused where they say otherwise."""
    for key, value in implied.items():
        if settings.get(key, value) != value:
            raise UserError(f"{key}={settings[key]}: it is {value} here; leave it out")
    return {**settings, **implied}


def _with_less_warmup(
    tree: dict[str, Any], problem: NoRoundLeft, note: Callable[[str], None]
) -> Experiment:
    """For a quick try: of a preset's warm-up as much as fits into the rounds that were typed.

    If the method refuses so short a warm-up, the original `problem` is raised.
    """
    fits = copy.deepcopy(tree)
    put(fits, "warmup.iterations", 0)
    budget = Experiment.model_validate(method_spelt_out(fits)).budget
    iterations = budget.most_warmup
    put(fits, "warmup.iterations", iterations)
    try:
        experiment = validated(fits)
    except NoWarmup:
        raise problem from None
    before = tree["warmup"]["iterations"]
    note(f"rounds={budget.rounds}: warmup.iterations={iterations}, as {before} would take them all")
    return experiment


def _precedence(key: str) -> int:
    """Choices first, in their order: a method is chosen before its variant, whatever was typed."""
    return CHOICES.index(key) if key in CHOICES else len(CHOICES)


def _tree(source: Source) -> dict[str, Any]:
    if isinstance(source, Experiment):
        return source.model_dump(mode="json", exclude_none=True)
    tree = read_toml(source) if isinstance(source, str | Path) else copy.deepcopy(dict(source))
    base = tree.pop("base", None)
    tree = method_spelt_out(tree)
    return tree if base is None else _on_top(_base(base), tree)


def _base(name: object) -> dict[str, Any]:
    known = preset_names()
    if not isinstance(name, str) or name not in known:
        raise UserError(
            f"base={name!r} is no preset{did_you_mean(name, known)}; there are {', '.join(known)}"
        )
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
        tree = parse_toml(f"value = {text}")
    except Excessive as problem:
        raise UserError(f"{key}: {problem}") from None
    except NotToml:
        return key, text  # a bare word is a string
    return key, tree["value"] if len(tree) == 1 else text  # more lines than one are no value


def _choose(tree: dict[str, Any], key: str, value: object) -> dict[str, Any]:
    """Choose, in place; gives the options, by dotted key, that were for another choice."""
    section, _, field = key.partition(".")
    current = tree.get(section, {})
    if not isinstance(current, dict):
        return {}
    if _chosen(current, key) == value:
        tree[section] = {**current, field: value}
        return {}
    others = current.keys() - KEPT.get(key, ())
    dropped = keys_of_other_rules(value) if key == "noise.levels" else others
    kept = {other: current[other] for other in current if other not in dropped}
    tree[section] = {**kept, field: value}
    if section == "partition" and isinstance(clients := tree.setdefault("clients", {}), dict):
        if is_natural(value):
            clients.pop("count", None)  # how many to deal to; now the data define the clients
        elif "deal_to" in current:
            clients.setdefault("count", current["deal_to"])
    # Keys of another rule for noise levels would have no meaning: nobody misses them.
    if key == "noise.levels":
        return {}
    return set_options(section, current, others - {"name", "variant", field})


def _chosen(section: Mapping[str, Any], key: str) -> object:
    """What a section chooses, in words or by saying nothing."""
    field = key.partition(".")[2]
    if field in section:
        return section[field]
    if key == "method.variant":
        return default_variant(str(section.get("name", UNSAID["method.name"])))
    return UNSAID[key]

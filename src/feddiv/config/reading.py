"""Reading an experiment: presets, TOML files, trees of values, `key=value` overrides."""

import copy
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from feddiv.config.experiment import Experiment, is_natural, method_spelt_out, spelt_out, validated
from feddiv.core.dotted import merged, put
from feddiv.core.errors import UserError
from feddiv.data.noise.noise_options import keys_of_other_rules
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

DEFAULTS: Mapping[str, Any] = {
    "method": {"name": "feddiv"},
    "partition": {"name": "iid"},
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
    tree = merged(copy.deepcopy(DEFAULTS), method_spelt_out(given))
    if isinstance(overrides, str):
        raise UserError(f"overrides={overrides!r}: give a list, as in [{overrides!r}]")
    pairs = overrides if isinstance(overrides, Mapping) else map(parsed, overrides)
    settings = spelt_out(dict(pairs), "method.")
    for key, value in (implied or {}).items():
        if settings.setdefault(key, value) != value:
            raise UserError(f"{key}={settings[key]}: it is {value} here; leave it out")
    for key, value in sorted(settings.items(), key=lambda pair: _precedence(pair[0])):
        _choose(tree, key, value) if key in CHOICES else put(tree, key, value)
    return validated(tree)


def _precedence(key: str) -> int:
    """Choices first, in their order: a method is chosen before its variant, whatever was typed."""
    return CHOICES.index(key) if key in CHOICES else len(CHOICES)


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
    natural = section == "partition" and is_natural(value)
    if natural and isinstance(clients := tree.get("clients"), dict):
        clients.pop("count", None)  # it was a number to deal to; now the data has it

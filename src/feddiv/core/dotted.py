"""Settings in nested sections, addressed by dotted keys."""

from collections.abc import Mapping
from typing import Any

from feddiv.core.errors import UserError


def flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """All values by their dotted keys."""
    leaves: dict[str, Any] = {}
    for key, value in tree.items():
        nested = isinstance(value, Mapping)
        leaves |= flat(value, f"{prefix}{key}.") if nested else {f"{prefix}{key}": value}
    return leaves


def put(tree: dict[str, Any], key: str, value: object) -> None:
    """Set the value of a dotted key, in place."""
    *sections, last = key.split(".")
    for section in sections:
        tree = tree.setdefault(section, {})
        if not isinstance(tree, dict):
            raise UserError(f"{key}: {section} is a value, not a section")
    tree[last] = value


def merged(base: Mapping[str, Any], top: Mapping[str, Any]) -> dict[str, Any]:
    """One tree laid over another, section by section."""
    result = dict(base)
    for key, value in top.items():
        below = result.get(key)
        nested = isinstance(value, Mapping) and isinstance(below, Mapping)
        result[key] = merged(below, value) if nested else value  # type: ignore[arg-type]
    return result

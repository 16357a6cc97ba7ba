"""What users name by its place in a package of theirs: "package.module:name"."""

import importlib
from typing import Any

from feddiv.core.errors import UserError, in_one_line


class NotFound(ValueError):
    """There is nothing usable at an import path, and why."""


def is_import_path(name: str) -> bool:
    """Whether a name is the import path of somebody's own, and none of ours."""
    return ":" in name


def path_of(thing: Any) -> str:
    """The import path of a class or a function."""
    return f"{thing.__module__}:{thing.__qualname__}"


def import_from(path: str, shape: str = "package.module:name") -> Any:
    """What is at this import path; `shape` is how one has to read, for errors."""
    module_name, _, attribute = path.partition(":")
    if not module_name or not attribute or module_name.startswith("."):
        raise NotFound(f"an import path reads {shape!r}")
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as problem:
        raise NotFound(
            f"module {module_name!r} cannot be imported "
            f"({in_one_line(problem)}); install it or put its folder on PYTHONPATH"
        ) from problem
    for name in attribute.split("."):
        if not hasattr(found, name):
            raise NotFound(f"{module_name!r} has no {attribute!r}")
        found = getattr(found, name)
    return found


def import_for(key: str, path: str, shape: str) -> Any:
    """The same, or a user's error that names the key whose value the path is."""
    try:
        return import_from(path, shape)
    except NotFound as problem:
        raise UserError(f"{key}={path!r}: {problem}") from problem


def why_not_of(found: object, base: type, what: str) -> str:
    """Why something cannot serve as a class derived from `base`; nothing where it can.

    `what` says what such a class is and where its base is: "noise: derive it from …".
    """
    if not isinstance(found, type):
        return f"is of type {type(found).__name__} and no class"
    if not issubclass(found, base):
        return f"{found.__name__} is no {what}"
    missing: frozenset[str] = getattr(found, "__abstractmethods__", frozenset())
    if missing:
        left_out = ", ".join(f"{name}()" for name in sorted(missing))
        return f"{found.__name__} leaves out {left_out}, which it has to define"
    return ""

"""What users name by its place in a package of theirs: "package.module:name".

Importing a module runs it. What a user types or passes now is consent to that; what comes out of a
run's folder or a model's file is not: there, only paths are imported that the user allows by name,
or has named before in this session.
"""

import importlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from feddiv.core.errors import UserError, in_one_line


class NotAllowed(UserError):
    """A file names a module that nobody has allowed."""


@dataclass(frozen=True)
class _Reading:
    """A file of somebody else's that is being read, and import paths that it may name."""

    file: Path
    allowed: frozenset[str]


_reading: ContextVar[_Reading | None] = ContextVar("reading", default=None)
_named: set[str] = set()  # import paths that the user gave in this session


@contextmanager
def named_in(file: Path, allow: Collection[str] | None = None) -> Iterator[None]:
    """Import paths that are met inside come from this file: only those in `allow` are imported.

    None stands for what is allowed already.
    """
    outer = _reading.get()
    if allow is None:
        allowed = None if outer is None else outer.allowed
    else:
        allowed = frozenset(checked_paths(allow))
    token = _reading.set(None if allowed is None else _Reading(file, allowed))
    try:
        yield
    finally:
        _reading.reset(token)


def checked_paths(allow: Collection[str]) -> Collection[str]:
    """Refuse to allow what is no import path."""
    if isinstance(allow, str):
        raise UserError(f"allow={allow!r}: give a list, as in [{allow!r}]")
    for path in allow:
        if not isinstance(path, str) or not is_import_path(path):
            raise UserError(f"--allow {path}: is no import path, such as package.module:name")
    return allow


def check_allowed(key: str, path: str) -> None:
    """Refuse what a file names and nobody has allowed; what the user names is noted."""
    reading = _reading.get()
    if reading is None:
        _named.add(path)
    elif path not in reading.allowed and path not in _named:
        raise NotAllowed(
            f"{reading.file}: {key}={path!r} would import a module, which is code; if you trust "
            f"it, allow it by --allow {path} (in Python and in a Flower run config: allow)"
        )


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
    """The same, or a user's error that names the key whose value the path is.

    Nothing is imported that a file names and the user has not allowed.
    """
    check_allowed(key, path)
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

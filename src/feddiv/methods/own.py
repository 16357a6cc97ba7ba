"""Methods from elsewhere: "package.module:Class"."""

from __future__ import annotations

import inspect
from typing import Any

from feddiv.core.errors import UserError
from feddiv.core.import_path import NotFound, import_from
from feddiv.methods.contract import Method, MethodOptions


def import_method(path: str, key: str = "method.name") -> type[Method[Any, Any]]:
    """The method whose class is at this import path; `key` is where it was named, for errors."""
    try:
        found = import_from(path, "package.module:Class")
    except NotFound as problem:
        raise UserError(f"{key}={path!r}: {problem}") from problem
    if reason := why_no_method(found):
        raise UserError(f"{key}={path!r}: {reason}")
    method: type[Method[Any, Any]] = found
    return method


def why_no_method(found: object) -> str:
    """What keeps something from being a method that can be run; nothing where it is one."""
    if not isinstance(found, type):
        return f"is of type {type(found).__name__} and no class"
    if not issubclass(found, Method):
        return f"{found.__name__} is no method: derive it from feddiv.methods.Method"
    if inspect.isabstract(found):
        left_out = ", ".join(f"{name}()" for name in sorted(found.__abstractmethods__))
        return f"{found.__name__} leaves out {left_out}, which every method has to define"
    options = getattr(found, "Options", None)
    if not (isinstance(options, type) and issubclass(options, MethodOptions)):
        return f"{found.__name__}.Options is no class derived from feddiv.methods.MethodOptions"
    return ""

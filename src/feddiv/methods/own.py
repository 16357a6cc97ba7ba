"""Methods from elsewhere: "package.module:Class"."""

from __future__ import annotations

from typing import Any

from feddiv.core.errors import UserError
from feddiv.core.import_path import import_for, why_not_of
from feddiv.methods.contract import Method, MethodOptions


def import_method(path: str, key: str = "method.name") -> type[Method[Any, Any]]:
    """The method whose class is at this import path; `key` is where it was named, for errors."""
    found = import_for(key, path, "package.module:Class")
    if reason := why_no_method(found):
        raise UserError(f"{key}={path!r}: {reason}")
    method: type[Method[Any, Any]] = found
    return method


def why_no_method(found: Any) -> str:
    """What keeps something from being a method that can be run; nothing where it is one."""
    if reason := why_not_of(found, Method, "method: derive it from feddiv.methods.Method"):
        return reason
    options = found.Options
    if not (isinstance(options, type) and issubclass(options, MethodOptions)):
        return f"{found.__name__}.Options is no class derived from feddiv.methods.MethodOptions"
    return ""

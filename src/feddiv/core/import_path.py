"""What users name by its place in a package of theirs: "package.module:name"."""

import importlib
from typing import Any

from feddiv.core.errors import in_one_line


class NotFound(ValueError):
    """There is nothing usable at an import path, and why."""


def is_import_path(name: str) -> bool:
    """Whether a name is the import path of somebody's own, and none of ours."""
    return ":" in name


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

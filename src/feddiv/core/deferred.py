"""Packages that are loaded when something of theirs is first used.

torch takes seconds to load, and commands that only read settings need nothing of it. Where it is
deferred, `import torch` is quick, and the first attribute that anybody asks for loads it. So no
module on the way to the typed experiment may use torch while it is itself imported.
"""

import sys
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any


class _Deferred(ModuleType):
    """A package that is not loaded yet.

    `importlib.util.LazyLoader` does not serve: its modules load at the second `import` of them.
    """

    def __getattr__(self, name: str) -> Any:
        spec = self.__spec__
        assert spec is not None
        assert spec.loader is not None
        self.__class__ = ModuleType  # type: ignore[assignment]  # it becomes the package itself
        self.__path__ = spec.submodule_search_locations or []
        try:
            spec.loader.exec_module(self)
        except BaseException:
            del sys.modules[spec.name]
            raise
        return getattr(self, name)


def defer(name: str) -> None:
    """Load this package at its first use, unless it is loaded already or not installed."""
    spec = None if name in sys.modules else find_spec(name)
    if spec is None:
        return
    module = module_from_spec(spec)
    # Whoever imports a part of the package asks for its path first, and thereby loads it.
    del module.__path__
    module.__class__ = _Deferred
    sys.modules[name] = module

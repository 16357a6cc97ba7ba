"""Where the server keeps models that it has of single clients.

A state refers to them by name. In the state itself, the models of a hundred clients would be
written with every checkpoint, and held in memory all the time.
"""

from typing import Protocol

from feddiv.core.arrays import StateDict


class ModelStore(Protocol):
    """Models by name; what is put on it never changes."""

    def put(self, label: str, model: StateDict) -> str:
        """Keep a model; the name that comes back is where."""

    def get(self, name: str) -> StateDict:
        """The model of this name."""


class ModelsInMemory:
    """A shelf that is gone with the process: for tests and for short runs."""

    def __init__(self) -> None:
        self._models: dict[str, StateDict] = {}

    def put(self, label: str, model: StateDict) -> str:
        """Keep a model."""
        name = f"{label}-{len(self._models)}"
        self._models[name] = model
        return name

    def get(self, name: str) -> StateDict:
        """The model of this name."""
        return self._models[name]

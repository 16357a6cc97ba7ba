"""What is understood where somebody brings data of their own."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from feddiv.config.experiment import Experiment, Overrides, Source, load_experiment, parsed
from feddiv.presets import presets, read_toml

CLIENTS: Final = {"data.source": "python", "partition.name": "natural"}


def usual_preset(settings: Iterable[tuple[str, Any]]) -> str:
    """The preset that is meant where none is named.

    Nobody wants quickstart's made-up noise on labels of their own.
    """
    from feddiv.data import SOURCES

    chosen = [str(value) for key, value in settings if key == "data.source"]
    own = any(name in SOURCES and SOURCES[name].own for name in chosen)
    return "own" if own else "quickstart"


def load_with_clients(source: Source | None, overrides: Overrides) -> Experiment:
    """The experiment of somebody who brings the clients along.

    All of them take part in every round, unless the caller says otherwise; what a preset says was
    meant for its own clients.
    """
    if isinstance(overrides, str):
        return load_experiment(source, overrides)  # refused there
    settings = dict(overrides if isinstance(overrides, Mapping) else map(parsed, overrides))
    if not _says_fraction(source):
        settings.setdefault("clients.fraction", 1.0)
    return load_experiment("own" if source is None else source, settings, CLIENTS)


def _says_fraction(source: Source | None) -> bool:
    if source is None or source in presets():
        return False
    if isinstance(source, Experiment):
        return True
    tree = read_toml(source) if isinstance(source, str | Path) else source
    clients = tree.get("clients")
    return isinstance(clients, Mapping) and "fraction" in clients

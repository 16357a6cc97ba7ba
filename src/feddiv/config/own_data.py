"""What is understood where somebody has data of their own."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from feddiv.config.experiment import Experiment
from feddiv.config.reading import Source, load_experiment
from feddiv.data import SOURCES
from feddiv.presets import presets, read_toml

CLIENTS: Final = {"data.source": "python", "partition.name": "natural"}


def usual_preset(sources: Iterable[object]) -> str:
    """The preset that is meant where none is named, with these values of data.source.

    Nobody wants quickstart's made-up noise on labels of their own.
    """
    own = any(source in SOURCES and SOURCES[str(source)].own for source in sources)
    return "own" if own else "quickstart"


def load_with_clients(
    source: Source, settings: Mapping[str, Any], note: Callable[[str], None]
) -> Experiment:
    """The experiment of somebody who brings the clients along.

    All of them take part in every round, unless the caller says otherwise: what a preset says is
    meant for clients of its own.
    """
    if not _says(source, "clients", "fraction"):
        settings = {"clients.fraction": 1.0, **settings}
    return load_experiment(source, settings, CLIENTS, note)


def without_test(source: Source, settings: Mapping[str, Any]) -> bool:
    """Whether it is left to us how to measure a model without test samples."""
    return "evaluation.name" not in settings and not _says(source, "evaluation", "name")


def _says(source: Source, section: str, key: str) -> bool:
    """Whether a key is the caller's own word, and not a preset's."""
    if isinstance(source, Experiment):
        return True
    if isinstance(source, str) and source in presets():
        return False
    tree = read_toml(source) if isinstance(source, str | Path) else source
    options = tree.get(section)
    return isinstance(options, Mapping) and key in options

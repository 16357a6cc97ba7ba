"""What is understood where somebody has data of their own."""

import copy
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from feddiv.config.experiment import Experiment
from feddiv.config.reading import Source, load_experiment, with_implied
from feddiv.core.dotted import flat, put
from feddiv.data import SOURCES
from feddiv.presets import preset_names, read_toml

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
    meant for clients of its own. So is its partition, and that of an `Experiment`, which has one
    whether the caller chose it or not; a partition of the caller's own word is refused.
    """
    if not _says(source, "clients", "fraction"):
        settings = {"clients.fraction": 1.0, **settings}
    tree = _own_tree(source)
    if tree is not None:
        source = _with_clients(tree)
    elif isinstance(source, Experiment) and not source.partition.natural:
        note(f"partition.name={source.partition.name} is left out: clients are those of clients=")
    return load_experiment(source, settings, CLIENTS, note)


def _with_clients(tree: Mapping[str, Any]) -> dict[str, Any]:
    """The caller's tree with what clients imply; its other options of these sections stay."""
    with_implied(flat(tree), CLIENTS)
    full = copy.deepcopy(dict(tree))
    for key, value in CLIENTS.items():
        put(full, key, value)
    return full


def without_test(source: Source, settings: Mapping[str, Any]) -> bool:
    """Whether it is left to us how to measure a model without test samples."""
    return "evaluation.name" not in settings and not _says(source, "evaluation", "name")


def _says(source: Source, section: str, key: str) -> bool:
    """Whether a key is the caller's own word, and not a preset's."""
    tree = _own_tree(source)
    options = {} if tree is None else tree.get(section)
    return isinstance(source, Experiment) or (isinstance(options, Mapping) and key in options)


def _own_tree(source: Source) -> Mapping[str, Any] | None:
    """What the caller wrote: a tree of values or a file, and no preset."""
    if isinstance(source, Experiment) or (isinstance(source, str) and source in preset_names()):
        return None
    return read_toml(source) if isinstance(source, str | Path) else source

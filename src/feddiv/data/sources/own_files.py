"""Data of one owner at one path, in classes and a shape that somebody else has settled."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from feddiv.core.errors import UserError
from feddiv.core.randomness import Streams
from feddiv.data.classes import in_these_classes
from feddiv.data.data_options import DataOptions
from feddiv.data.dataset import Dataset
from feddiv.data.sources import SOURCES, Loaded, listed_samples, load_dataset
from feddiv.data.watcher import DataWatcher
from feddiv.encoders.choice import EncoderChoice
from feddiv.encoders.contract import Encoder

SOME_ENCODER: Final = "any"  # which one does not matter to a source
SUFFIXES: Final = {".csv": "table", ".parquet": "table", ".npz": "npz"}


def load_own(
    path: Path,
    classes: tuple[str, ...],
    where: str,
    settled: Mapping[str, Any],
    encoder: EncoderChoice | None = None,
    streams: Streams | None = None,
    watcher: DataWatcher | None = None,
    made: Encoder | None = None,
) -> Dataset:
    """A folder of class folders, a table or an .npz file: all of it, by the names of the classes.

    `settled` are data options, such as the size of images; those that the kind of file has no use
    for are left out. `encoder` makes vectors of images or texts, and is `made` where the caller has
    it already. `where` names the path in errors.
    """
    source = own_source(path, where)
    takes = SOURCES[source].takes
    given = {key: value for key, value in settled.items() if key in takes}
    options = DataOptions(source=source, path=path, **given).encoded_by(encoder)
    own = load_dataset(
        options, streams or Streams(0), watcher, with_test=False, made=made, part=True
    )
    return in_these_classes(own, classes, where)


def list_own(path: Path, classes: tuple[str, ...], where: str) -> Dataset:
    """The same without the samples themselves: their names and labels, and how they look."""
    own = listed_samples(DataOptions(source=own_source(path, where), path=path))
    return in_these_classes(own, classes, where)


def own_source(path: Path, where: str) -> str:
    """The source that reads what is at a path, by its name."""
    if path.is_dir():
        return "folder"
    if path.is_file() and path.suffix.lower() in SUFFIXES:
        return SUFFIXES[path.suffix.lower()]
    raise UserError(f"{where}: is no folder and no file of {', '.join(SUFFIXES)}")


def unread_own(path: Path, where: str, *, encoded: bool = False) -> tuple[DataOptions, Loaded]:
    """The same data before anything is read or encoded, to look at its samples one by one.

    With an encoder, samples of a table are its texts or images, whatever else is in it.
    """
    encoder = SOME_ENCODER if encoded else None
    options = DataOptions(
        source=own_source(path, where), path=path, test_share=0.0, encoder=encoder
    )
    return options, SOURCES[options.source].load(options)

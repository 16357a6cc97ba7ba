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
from feddiv.data.sources import SOURCES, load_dataset
from feddiv.data.watcher import DataWatcher
from feddiv.encoders.choice import EncoderChoice

SUFFIXES: Final = {".csv": "table", ".parquet": "table", ".npz": "npz"}


def load_own(
    path: Path,
    classes: tuple[str, ...],
    where: str,
    settled: Mapping[str, Any],
    encoder: EncoderChoice | None = None,
    streams: Streams | None = None,
    watcher: DataWatcher | None = None,
) -> Dataset:
    """A folder of class folders, a table or an .npz file: all of it, by the names of the classes.

    `settled` are data options, such as the size of images; those that the kind of file has no use
    for are left out. `encoder` makes vectors of images or texts. `where` names the path in errors.
    """
    if path.is_dir():
        source = "folder"
    elif path.is_file() and path.suffix.lower() in SUFFIXES:
        source = SUFFIXES[path.suffix.lower()]
    else:
        raise UserError(f"{where}: is no folder and no file of {', '.join(SUFFIXES)}")
    takes = SOURCES[source].takes
    given = {key: value for key, value in settled.items() if key in takes}
    options = DataOptions(source=source, path=path, **given).encoded_by(encoder)
    own = load_dataset(options, streams or Streams(0), watcher, with_test=False)
    return in_these_classes(own, classes, where)

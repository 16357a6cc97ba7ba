"""Where data lie: the folder a run names, else FEDDIV_DATA, else feddiv's cache."""

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from feddiv.core.errors import UserError
from feddiv.core.given_files import at_home
from feddiv.data.published.benchmarks import Benchmark

CACHE: Final = "the cache"


@dataclass(frozen=True)
class Place:
    """A folder that may hold data sets, and the setting that named it."""

    setting: str
    folder: Path

    def __str__(self) -> str:
        return f"{self.setting} {self.folder}" if self.setting == CACHE else self.named

    @property
    def named(self) -> str:
        """As the user would write it."""
        return f"{self.setting}={self.folder}"


def cache_folder() -> Path:
    """FEDDIV_CACHE, else the folder for caches that the platform gives a user."""
    named = os.environ.get("FEDDIV_CACHE", "")
    if named:
        return at_home(named).absolute()
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA", "")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "feddiv" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "feddiv"
    xdg = Path(os.environ.get("XDG_CACHE_HOME", ""))  # a relative one does not count, says XDG
    return (xdg if xdg.is_absolute() else Path.home() / ".cache") / "feddiv"


def places(path: Path | None = None, setting: str = "data.path") -> tuple[Place, ...]:
    """Where to look, in this order; a folder that somebody named has to be there.

    `setting` is the key that `path` was given by.
    """
    if path is not None:
        return (_existing(Place(setting, at_home(path))),)
    cache = Place(CACHE, cache_folder())
    named = os.environ.get("FEDDIV_DATA", "")
    return (_existing(Place("FEDDIV_DATA", at_home(named))), cache) if named else (cache,)


def _existing(place: Place) -> Place:
    if not place.folder.is_dir():
        raise UserError(f"{place.named}: there is no such folder")
    return place


def find(benchmark: Benchmark, path: Path | None = None, setting: str = "data.path") -> Path:
    """The folder with the files of this data set; some of them may be missing."""
    looked = places(path, setting)
    for place in looked:
        for folder in folders_in(place, benchmark):
            return folder
    remedy = f"run `feddiv data get {benchmark.name}`"
    last = benchmark.folder
    if looked[0].setting == CACHE:
        raise UserError(
            f"{benchmark.name}: not found in {looked[0]}; {remedy}, or set {setting} or "
            f"FEDDIV_DATA to a folder that holds {last}"
        )
    more = f", nor does {looked[1]}" if len(looked) > 1 else ""
    raise UserError(f"{looked[0].named}: holds no {last}{more}; name the folder of it, or {remedy}")


def folders_in(place: Place, benchmark: Benchmark) -> Iterator[Path]:
    """The folders in this place that hold the data set, or should by their name."""
    base = place.folder
    for name in (benchmark.folder, *benchmark.also):
        folder = base / name
        if _holds(folder, benchmark) or (name == benchmark.folder and folder.is_dir()):
            yield folder
    if _holds(base, benchmark) or base.name == benchmark.folder:
        yield base


def _holds(folder: Path, benchmark: Benchmark) -> bool:
    return locate(folder, benchmark.pieces[0].name) is not None


def locate(folder: Path, name: str) -> Path | None:
    """A piece of a data set in its folder, gzipped or not; IDX files also go by a dotted name."""
    dotted = name.replace("-idx", ".idx")
    for spelling in (name, f"{name}.gz", dotted, f"{dotted}.gz"):
        if (folder / spelling).is_file():
            return folder / spelling
    return None

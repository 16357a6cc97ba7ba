"""Noise of somebody's own: a class at "package.module:Class"."""

from collections.abc import Mapping

from feddiv.core.errors import UserError
from feddiv.core.import_path import NotFound, import_from, is_import_path
from feddiv.data.noise.noise_options import NoiseOptions

BASE = "feddiv.data.noise.NoiseOptions"


def import_noise(path: str, key: str = "noise.name") -> type[NoiseOptions]:
    """The class of noise at this import path; `key` is where the path was read."""
    try:
        found = import_from(path, "package.module:Class")
    except NotFound as problem:
        raise UserError(f"{key}={path!r}: {problem}") from problem
    if not isinstance(found, type) or not issubclass(found, NoiseOptions):
        raise UserError(f"{key}={path!r}: is no class of noise; it has to be one of {BASE}")
    if found.__abstractmethods__:
        missing = ", ".join(sorted(found.__abstractmethods__))
        raise UserError(f"{key}={path!r}: the class has to define {missing}")
    return found


def import_paths(noise: object) -> list[str]:
    """The import paths that a noise section names, its own and its kinds'; none is imported."""
    if isinstance(noise, str):
        return [noise] if is_import_path(noise) else []
    if isinstance(noise, Mapping):
        return import_paths([noise.get("name"), noise.get("kinds")])
    if isinstance(noise, list | tuple):
        return [path for item in noise for path in import_paths(item)]
    return []

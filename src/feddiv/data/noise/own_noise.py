"""Noise of somebody's own: a class at "package.module:Class"."""

from collections.abc import Mapping

from feddiv.core.errors import UserError
from feddiv.core.import_path import import_for, is_import_path, why_not_of
from feddiv.data.noise.noise_options import NoiseOptions

BASE = "noise: derive it from feddiv.data.noise.NoiseOptions"


def import_noise(path: str, key: str = "noise.name") -> type[NoiseOptions]:
    """The class of noise at this import path; `key` is where the path was read."""
    found: type[NoiseOptions] = import_for(key, path, "package.module:Class")
    if reason := why_not_of(found, NoiseOptions, BASE):
        raise UserError(f"{key}={path!r}: {reason}")
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

"""The kinds of noise there are, by name: a new one is entered here."""

from feddiv.core.did_you_mean import did_you_mean
from feddiv.core.errors import UserError
from feddiv.core.import_path import is_import_path
from feddiv.data.noise.human import Human
from feddiv.data.noise.instance import Instance
from feddiv.data.noise.labels import NoNoise, Pair, Symmetric
from feddiv.data.noise.noise_options import NoiseOptions
from feddiv.data.noise.open_set import OpenSet
from feddiv.data.noise.own_noise import import_noise

KINDS: dict[str, type[NoiseOptions]] = {
    "none": NoNoise,
    "symmetric": Symmetric,
    "pair": Pair,
    "instance": Instance,
    "open_set": OpenSet,
    "human": Human,
}


def kind_class(name: object) -> type[NoiseOptions]:
    """The kind of noise of this name or import path."""
    if isinstance(name, str) and is_import_path(name):
        return import_noise(name, "noise.kinds")
    if not isinstance(name, str) or name not in KINDS:
        raise UserError(
            f"noise.kinds: {name!r} is unknown{did_you_mean(name, KINDS)}; "
            f"allowed: {', '.join(KINDS)}, and import paths 'package.module:Class'"
        )
    return KINDS[name]

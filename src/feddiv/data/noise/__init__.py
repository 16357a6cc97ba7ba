"""Wrong labels on purpose, different at every client, by name."""

from typing import Final

from feddiv.data.noise.human import Human
from feddiv.data.noise.instance import Instance
from feddiv.data.noise.kinds import KINDS
from feddiv.data.noise.labels import NoNoise, Pair, Symmetric
from feddiv.data.noise.mixed import Mixed
from feddiv.data.noise.noise_options import (
    Corruption,
    Foreign,
    LevelOptions,
    NoiseOptions,
    labels_of,
)
from feddiv.data.noise.open_set import OpenSet

NOISES: Final[dict[str, type[NoiseOptions]]] = {**KINDS, "mixed": Mixed}

__all__ = [
    "NOISES",
    "Corruption",
    "Foreign",
    "Human",
    "Instance",
    "LevelOptions",
    "Mixed",
    "NoNoise",
    "NoiseOptions",
    "OpenSet",
    "Pair",
    "Symmetric",
    "labels_of",
]

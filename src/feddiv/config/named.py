"""Sections whose keys depend on what they name: the class of each, by name."""

from collections.abc import Mapping

from feddiv.config.sections import EVALUATIONS, FEDERATIONS
from feddiv.core.options import Options
from feddiv.data import NOISES, PARTITIONS

NAMED: Mapping[str, Mapping[str, type[Options]]] = {
    "partition": PARTITIONS,
    "noise": NOISES,
    "evaluation": EVALUATIONS,
    "federation": FEDERATIONS,
}

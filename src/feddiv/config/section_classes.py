"""Sections whose keys depend on what they name: the class of each, by name."""

from collections.abc import Mapping

from feddiv.config.sections import EVALUATIONS, FEDERATIONS
from feddiv.core.did_you_mean import did_you_mean
from feddiv.core.errors import UserError
from feddiv.core.import_path import is_import_path
from feddiv.core.options import Options
from feddiv.data import NOISES, PARTITIONS
from feddiv.data.noise.own_noise import import_noise

NAMED: Mapping[str, Mapping[str, type[Options]]] = {
    "partition": PARTITIONS,
    "noise": NOISES,
    "evaluation": EVALUATIONS,
    "federation": FEDERATIONS,
}


def section_class(section: str, name: object) -> type[Options]:
    """The class of a section that has this name; noise may also be somebody's own."""
    classes = NAMED[section]
    if section == "noise" and isinstance(name, str) and is_import_path(name):
        return import_noise(name)
    if not isinstance(name, str) or name not in classes:
        own = ", and import paths 'package.module:Class'" if section == "noise" else ""
        raise UserError(
            f"{section}.name={name!r} is unknown{did_you_mean(name, classes)}; "
            f"allowed: {', '.join(classes)}{own}"
        )
    return classes[name]

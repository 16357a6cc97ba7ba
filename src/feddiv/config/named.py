"""Sections whose keys depend on what they name: the class of each, by name."""

from collections.abc import Mapping

from feddiv.config.sections import EVALUATIONS, FEDERATIONS
from feddiv.core.errors import UserError
from feddiv.core.nearest import did_you_mean
from feddiv.core.options import Options
from feddiv.data import NOISES, PARTITIONS

NAMED: Mapping[str, Mapping[str, type[Options]]] = {
    "partition": PARTITIONS,
    "noise": NOISES,
    "evaluation": EVALUATIONS,
    "federation": FEDERATIONS,
}


def section_class(section: str, name: object) -> type[Options]:
    """The class of a section that has this name."""
    classes = NAMED[section]
    if not isinstance(name, str) or name not in classes:
        raise UserError(
            f"{section}.name={name!r} is unknown{did_you_mean(name, classes)}; "
            f"allowed: {', '.join(classes)}"
        )
    return classes[name]

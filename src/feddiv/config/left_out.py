"""What choosing something else leaves out: options that were set for what was chosen before."""

from collections.abc import Iterator, Mapping
from typing import Any

from feddiv.config.experiment import Experiment, plain_method
from feddiv.config.section_classes import NAMED, section_class
from feddiv.core.dotted import flat
from feddiv.core.errors import UserError
from feddiv.core.options import Options
from feddiv.data import DataOptions
from feddiv.methods.registry import default_variant, split_name
from feddiv.nets import ModelOptions

OUR_OWN: Mapping[str, type[Options]] = {"data": DataOptions, "model": ModelOptions}


def set_options(section: str, tree: Mapping[str, Any], fields: set[str]) -> dict[str, Any]:
    """Of these fields of a section, what is not as its choice has it anyway; by dotted key."""
    chosen = {field: value for field, value in tree.items() if field in fields}
    try:
        usual = flat({section: _unset(section, tree)})
    except UserError:  # it named nothing that there is
        return {}
    return {key: value for key, value in flat({section: chosen}).items() if usual.get(key) != value}


def missed(
    left_out: Mapping[str, Any], experiment: Experiment, settings: Mapping[str, Any]
) -> list[str]:
    """Of options that were left out, those that the experiment or a rival of it knows as well.

    What is set anew in `settings` is not missed.
    """
    known = {*flat(experiment.model_dump())}
    for rival in experiment.against:
        known |= flat({"method": _unset("method", {"name": split_name(rival)[0]})}).keys()
    return [
        f"{key}={value}"
        for key, value in left_out.items()
        if key not in settings and not known.isdisjoint(_with_sections(key))
    ]


def _with_sections(key: str) -> Iterator[str]:
    """A key and the sections it is in: one of them may be there as a whole, and not set."""
    while key:
        yield key
        key = key.rpartition(".")[0]


def _unset(section: str, tree: Mapping[str, Any]) -> dict[str, Any]:
    """A section with nothing set but what it chooses."""
    name = str(tree.get("name"))
    if section == "method":
        plain: Options = plain_method(name, str(tree.get("variant", default_variant(name))))
    elif section in NAMED:
        plain = section_class(section, name).model_construct()
    else:
        plain = OUR_OWN[section]()
    return plain.model_dump(mode="json")

"""What is wrong with an experiment, in one line that names the key and what is allowed."""

from collections.abc import Iterator, Mapping
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from feddiv.config.section_classes import NAMED, section_class
from feddiv.core.did_you_mean import nearest
from feddiv.data.noise.kinds import kind_class
from feddiv.methods.registry import METHODS, method_class

Location = tuple[int | str, ...]


def one_line(error: ValidationError, tree: Mapping[str, Any], root: type[BaseModel]) -> str:
    """The first of the problems that pydantic found in `tree`, read as a `root`."""
    problems = [(_place(each, tree), each) for each in error.errors()]
    place, first = problems[0]
    key, more = _dotted(place), len({each for each, _ in problems}) - 1
    if first["type"] == "extra_forbidden":
        allowed = _siblings(first["loc"], tree, root)
        hint = _hint(first["loc"], tree, root, allowed)
        text = f"{key} is an unknown key{hint}; allowed here: {', '.join(allowed)}"
    else:
        # A value that may be of several kinds has a problem with each.
        kinds = (problem["msg"] for each, problem in problems if each == place)
        said = ", or: ".join(dict.fromkeys(kind.removeprefix("Value error, ") for kind in kinds))
        given = "" if isinstance(first["input"], Mapping) else f"={first['input']!r}"
        text = f"{key}{given}: {said}"
    return text + (f" (and {more} more)" if more else "")


def _place(problem: ErrorDetails, tree: Mapping[str, Any]) -> Location:
    """The key of a problem, without the kind of value that pydantic tried to read it as."""
    value: Any = tree
    location = problem["loc"]
    for depth, part in enumerate(location):
        if not isinstance(value, Mapping | list | tuple):
            return location[:depth]
        try:
            value = value[part]  # type: ignore[index]
        except (KeyError, IndexError, TypeError):
            # A kind that this table or list is not; else a key that it has not, or a kind of table.
            kind = problem["input"] is value and problem["type"] != "missing"
            return location[:depth] if kind else location
    return location


def _dotted(location: Location) -> str:
    return ".".join(str(part) for part in location)


def _hint(
    location: Location, tree: Mapping[str, Any], root: type[BaseModel], allowed: list[str]
) -> str:
    """What may have been meant: a key of another section, beside it, or of another choice."""
    *above, last = location
    name, keys = str(last), list(_keys(root, tree))
    leaves = {key.rpartition(".")[2]: key for key in reversed(keys)}  # the first of a name wins
    if len(above) == 1 and (owners := _owners(str(above[0]), name)):
        return f" ({owners})"
    if name in leaves:
        return f" (did you mean {leaves[name]}?)"
    if (found := nearest(name, allowed)) is not None:
        return f" (did you mean {_dotted((*above, found))}?)"
    if above:
        return ""
    if (found := nearest(name, leaves)) is not None:
        return f" (did you mean {leaves[found]}?)"
    owners = next(filter(None, (_owners(section, name) for section in ("method", *NAMED))), "")
    return f" ({owners})" if owners else ""


def _owners(section: str, key: str) -> str:
    """Which choices of a section have this key."""
    classes: Mapping[str, type[BaseModel]] = NAMED.get(section, {})
    if section == "method":
        classes = {name: method.Options for name, method in METHODS.items()}
    owners = [name for name, each in classes.items() if key in each.model_fields]
    return f"{section}.{key} is for {section}.name={', '.join(owners)}" if owners else ""


def _siblings(location: Location, tree: Mapping[str, Any], root: type[BaseModel]) -> list[str]:
    """The keys that are allowed where an unknown one was found."""
    model = root
    value: Any = tree
    for depth, part in enumerate(location[:-1]):
        value = value[part]
        if isinstance(part, str):
            model = _section(model, part, value, depth) or model
        else:  # a number is a place in the list of kinds of noise
            model = kind_class(value["name"])
    return list(model.model_fields)


def _keys(model: type[BaseModel], tree: Any, prefix: str = "", depth: int = 0) -> Iterator[str]:
    """All dotted keys that an experiment with these choices has, sections left out."""
    for field in model.model_fields:
        value = tree.get(field, {}) if isinstance(tree, Mapping) else {}
        section = _section(model, field, value, depth)
        if section is None:
            yield prefix + field
        else:
            yield from _keys(section, value, f"{prefix}{field}.", depth + 1)


def _section(model: type[BaseModel], field: str, value: Any, depth: int) -> type[BaseModel] | None:
    """The class of a section, by the name it holds where it has several; None for a value."""
    if depth == 0 and (field == "method" or field in NAMED):
        if not isinstance(value, Mapping) or "name" not in value:
            return None
        name = value["name"]
        return method_class(name).Options if field == "method" else section_class(field, name)
    if isinstance(value, list | tuple):
        return None
    annotation = model.model_fields[field].annotation
    kinds = [annotation, *get_args(annotation)]  # `Augment | None` is a section too
    classes = (kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel))
    return next(classes, None)

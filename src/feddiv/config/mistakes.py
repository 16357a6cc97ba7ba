"""What is wrong with an experiment, in one line that names the key and what is allowed."""

from collections.abc import Mapping
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from feddiv.config.named import NAMED
from feddiv.data import NOISES
from feddiv.methods.registry import method_class


def one_line(error: ValidationError, tree: Mapping[str, Any], root: type[BaseModel]) -> str:
    """The first of the problems that pydantic found in `tree`, read as a `root`."""
    first, *more = error.errors()
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        allowed = ", ".join(_siblings(first["loc"], tree, root))
        text = f"{key} is an unknown key; allowed here: {allowed}"
    else:
        said = first["msg"].removeprefix("Value error, ")
        given = "" if isinstance(first["input"], Mapping) else f"={first['input']!r}"
        text = f"{key}{given}: {said}"
    return text + (f" (and {len(more)} more)" if more else "")


def _siblings(
    location: tuple[int | str, ...], tree: Mapping[str, Any], root: type[BaseModel]
) -> list[str]:
    """The keys that are allowed where an unknown one was found."""
    model = root
    value: Any = tree
    for depth, part in enumerate(location[:-1]):
        value = value[part]
        # A number is a place in the list of kinds of noise.
        named = isinstance(part, str)
        model = _section(model, str(part), value, depth) if named else NOISES[value["name"]]
    return list(model.model_fields)


def _section(model: type[BaseModel], field: str, value: Any, depth: int) -> type[BaseModel]:
    """The class of a section: by the name it holds where it has several."""
    if depth == 0 and (field == "method" or field in NAMED):
        name = value["name"]
        return method_class(name).Options if field == "method" else NAMED[field][name]
    if isinstance(value, list | tuple):
        return model
    annotation = model.model_fields[field].annotation
    kinds = [annotation, *get_args(annotation)]  # `Augment | None` is a section too
    return next(kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel))

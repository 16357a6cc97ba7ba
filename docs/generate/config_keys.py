"""The keys of an experiment, read from the classes that validate them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import annotated_types
from docs.generate.explanations import comments_of, text_of
from docs.generate.tables import table
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from feddiv.config.experiment import Experiment
from feddiv.config.sections import EVALUATIONS, FEDERATIONS
from feddiv.core.options import Options
from feddiv.data import NOISES, PARTITIONS
from feddiv.methods.registry import METHODS, full_name

# Sections whose `name` decides which other keys they have.
CHOICES: Mapping[str, Mapping[str, type[Options]]] = {
    "method": {name: method.Options for name, method in METHODS.items()},
    "partition": PARTITIONS,
    "noise": NOISES,
    "evaluation": EVALUATIONS,
    "federation": FEDERATIONS,
}
CHOSEN_BY = ("name", "variant")
WORDS = {int: "integer", float: "number", str: "text", Path: "path", dict: "table"}


@dataclass(frozen=True)
class Key:
    """One key: its dotted name, what it may be, what it is by default, and a line about it."""

    name: str
    values: str
    default: str
    meaning: str


@dataclass(frozen=True)
class Group:
    """Keys that one class holds, what the class says of them, and how deep they are nested."""

    title: str
    text: str
    keys: tuple[Key, ...]
    level: int

    @property
    def unexplained(self) -> list[str]:
        """Keys that neither a comment nor the class's text says anything about."""
        return [
            key.name
            for key in self.keys
            if not key.meaning and f"`{key.name.rpartition('.')[2]}`" not in self.text
        ]


def groups() -> Iterator[Group]:
    """All keys: those of the top first, then section by section."""
    fields = Experiment.model_fields
    sections = {name: kind for name, field in fields.items() if (kind := _section(field))}
    yield _group("The experiment", "", Experiment, 2, sections)
    for name, kind in sections.items():
        for choice, options in CHOICES.get(name, {}).items():
            yield from _groups(f"{name}.name={choice}", f"{name}.", options, 3)
        if name not in CHOICES:
            yield from _groups(name, f"{name}.", kind, 2)


def all_keys() -> set[str]:
    """Every dotted key that some experiment has."""
    chosen = {f"{section}.name" for section in CHOICES} | {"method.variant"}
    return chosen | {key.name for group in groups() for key in group.keys}


def as_markdown() -> str:
    """The sections of the reference page."""
    parts = []
    for group in groups():
        section = group.title.partition(".")[0]
        if group.title == f"{section}.name={next(iter(CHOICES.get(section, ['-'])))}":
            parts.append(f"## {section}")
        parts.append(_markdown(group))
    return "\n\n".join(parts)


def variants_of(method: str, names: Iterable[str]) -> str:
    """A table of all options of a method under some of its variants."""
    kind = METHODS[method]
    columns = list(names)
    rows = [
        [f"`{key.name}`", *(_under(kind.variants[name].options, key) for name in columns)]
        for group in _groups(f"method.name={method}", "method.", kind.Options, 3)
        for key in group.keys
    ]
    return table(["option", *(f"`{full_name(method, name)}`" for name in columns)], rows)


def _under(options: Mapping[str, Any], key: Key) -> str:
    value = _shown(options.get(key.name.removeprefix("method."), ...))
    return key.default if value in (key.default, _shown(...)) else f"**{value}**"


def _markdown(group: Group) -> str:
    title = group.title if group.level == 2 else f"`{group.title}`"
    lines = [f"{'#' * group.level} {title}", group.text]
    if group.keys:
        head = ["key", "values", "default", "meaning"]
        rows = [[f"`{k.name}`", k.values, k.default, k.meaning] for k in group.keys]
        lines.append(table(head, rows))
    method = METHODS.get(group.title.removeprefix("method.name="))
    if method is not None and len(method.variants) > 1:
        named = {full_name(method.name, name): of.summary for name, of in method.variants.items()}
        rows = [[f"`method.name={name}`", summary] for name, summary in named.items()]
        lines.append(table(["variant", "what it is"], rows))
    return "\n\n".join(lines)


def _groups(title: str, prefix: str, options: type[Options], level: int) -> Iterator[Group]:
    fields = options.model_fields
    nested = {name: kind for name, field in fields.items() if (kind := _section(field))}
    yield _group(title, prefix, options, level, nested)
    for name, kind in nested.items():
        yield from _groups(f"{prefix}{name}", f"{prefix}{name}.", kind, level + 1)


def _group(
    title: str, prefix: str, options: type[Options], level: int, without: Iterable[str]
) -> Group:
    comments = comments_of(options)
    skipped = {*without, *(CHOSEN_BY if ".name=" in title else ())}
    keys = tuple(
        Key(f"{prefix}{name}", _values(field), _default(field), comments.get(name, ""))
        for name, field in options.model_fields.items()
        if name not in skipped
    )
    return Group(title, text_of(options), keys, level)


def _section(field: FieldInfo) -> type[Options] | None:
    """The class of a section, if the field is one."""
    for kind in (field.annotation, *get_args(field.annotation)):
        if isinstance(kind, type) and issubclass(kind, Options):
            return kind
    return None


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    return "–" if value is PydanticUndefined else _shown(value)


def _shown(value: object) -> str:
    """A value as TOML would write it, in code."""
    if value is None or value == "":
        return "–"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return f"`[{', '.join(map(repr, value))}]`"
    return f"`{round(value, 4) if isinstance(value, float) else value}`"


def _values(field: FieldInfo) -> str:
    return f"{_kind(field.annotation)}{_bounds(field.metadata)}"


def _kind(annotation: Any) -> str:
    """What a value may be, in words."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return ", ".join(_shown(value) for value in arguments)
    if origin in (Union, UnionType):
        return " or ".join(_kind(kind) for kind in arguments if kind is not type(None))
    if origin is tuple:
        return f"list of {_kind(arguments[0])}"
    if hasattr(annotation, "__metadata__"):  # Annotated
        fields = [each for each in annotation.__metadata__ if isinstance(each, FieldInfo)]
        return _kind(arguments[0]) + "".join(_bounds(field.metadata) for field in fields)
    if annotation is bool:
        return "`true`, `false`"
    if isinstance(annotation, type) and issubclass(annotation, Options):
        return "names or tables"
    return WORDS[origin or annotation]


def _bounds(metadata: list[Any]) -> str:
    signs = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
    limits = [
        f"{sign} {getattr(item, name)}"
        for item in metadata
        for name, sign in signs.items()
        if isinstance(item, annotated_types.BaseMetadata) and hasattr(item, name)
    ]
    return f" {', '.join(limits)}" if limits else ""

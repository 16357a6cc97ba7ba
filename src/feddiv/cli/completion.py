"""What a shell offers when Tab is pressed: presets, keys with their values, names."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import typer

from feddiv.core.errors import UserError

# Keys whose values have names, and the list of `feddiv list` that has them.
NAMED: Final[Mapping[str, str]] = {
    "method.name": "methods",
    "against": "methods",
    "data.source": "datasets",
    "partition.name": "partitions",
    "noise.name": "noise",
    "model.name": "models",
    "data.encoder": "encoders",
}
PLAIN: Final = re.compile(r"[\w.+-]+")  # no shell minds these characters


def complete_experiment(context: typer.Context, incomplete: str) -> list[str]:
    """Words that may come next in `[PRESET] [KEY=VALUE]...`."""
    words = [str(word) for word in context.params.get("what") or ()]
    try:
        return list(_next(words, incomplete))
    except UserError:  # the command itself says what is wrong with the words before
        return []


def complete_benchmark() -> list[str]:
    """Data sets that `feddiv data` knows."""
    from feddiv.data.published.benchmarks import CATALOGUE

    return list(CATALOGUE)


def _next(words: list[str], incomplete: str) -> Iterator[str]:
    # bash cuts words at "=" and completes the part behind it; zsh and fish leave them whole.
    if words[-1:] == ["="]:
        words = words[:-1]
    given = " ".join(words).replace(" = ", "=").split()
    key, equals, _ = incomplete.partition("=")
    if given and given[-1] in NAMED:
        yield from _names(given[-1])
    elif equals:
        yield from (f"{key}={name}" for name in _names(key))
    elif presets := [] if given else _presets(incomplete):
        yield from presets
    else:
        yield from _settings(given, incomplete)


def _presets(beginning: str) -> list[str]:
    from feddiv.presets import presets

    return [name for name in presets() if name.startswith(beginning)]


def _names(key: str) -> list[str]:
    from feddiv.cli.choices import LISTS

    return list(LISTS[NAMED[key]]()) if key in NAMED else []


def _settings(given: list[str], beginning: str) -> Iterator[str]:
    """Keys with the values that they have now: a setting that is allowed, to be changed."""
    from feddiv.cli.arguments import split_arguments
    from feddiv.config.reading import load_experiment
    from feddiv.core.dotted import flat
    from feddiv.presets import preset_names

    source, overrides = split_arguments(given)
    # Reading a file, or a path to code, would import what it names: not at the press of a key.
    if source not in preset_names() or any(":" in setting for setting in overrides):
        return
    experiment = load_experiment(source, overrides)
    for key, value in flat(experiment.model_dump(mode="json")).items():
        if not key.startswith(beginning):
            continue
        for text in _names(key) or [_plain(value)]:
            yield f"{key}={text}"


def _plain(value: Any) -> str:
    """A value as it is typed, nothing where that takes quotes."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if value is not None and PLAIN.fullmatch(text) else ""

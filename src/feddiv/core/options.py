"""The base of every typed set of options."""

from contextlib import suppress
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


class Options(BaseModel):
    """Immutable, strict about types and unknown keys: a wrong key is an error, never ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def _named(value: object) -> object:
    if value == "":
        raise ValueError("is empty; name a file or folder")
    if isinstance(value, str):
        if "\0" in value:
            raise ValueError("a name cannot have a zero byte in it")
        try:
            Path(value).expanduser()
        except RuntimeError:
            raise ValueError("there is no home folder of that user") from None
    return value


def _parts(text: str) -> list[str]:
    """What a list holds that is written as `a,b`, or as `[a, b]` whose quotes a shell has eaten."""
    inner = text.strip().removeprefix("[").removesuffix("]")
    return [part.strip().strip("'\"") for part in inner.split(",") if part.strip()]


def _listed(value: object) -> object:
    return _parts(value) if isinstance(value, str) else value


def _numbers(value: object) -> object:
    """The same for numbers, also for one alone; what is none stays text, and is refused as such."""
    if isinstance(value, int | float):
        return [value]
    if not isinstance(value, str):
        return value
    found: list[int | float | str] = []
    for part in _parts(value):
        for kind in (int, float, str):
            with suppress(ValueError):
                found.append(kind(part))
                break
    return found


# A list that may be written as text, `a,b`: nobody wants to type quotes and brackets in a shell.
# Of TOML it is a list, and nothing there is a tuple: hence not strict.
Listed = BeforeValidator(_listed)
ListedNumbers = BeforeValidator(_numbers)

# As text it would be the current folder where nothing is given.
GivenPath = Annotated[Path, Field(strict=False), BeforeValidator(_named)]

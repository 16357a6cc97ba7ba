"""The base of every typed set of options."""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


class Options(BaseModel):
    """Immutable, strict about types and unknown keys: a wrong key is an error, never ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def _not_empty(value: object) -> object:
    if value == "":
        raise ValueError("is empty; name a file or folder")
    return value


# As text it would be the current folder where nothing is given.
GivenPath = Annotated[Path, Field(strict=False), BeforeValidator(_not_empty)]

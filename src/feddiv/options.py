"""The base of every typed set of options."""

from pydantic import BaseModel, ConfigDict


class Options(BaseModel):
    """Immutable, strict about types and unknown keys: a wrong key is an error, never ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

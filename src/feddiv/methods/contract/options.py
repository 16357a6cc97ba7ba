"""A method's options, and named sets of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from feddiv.core.options import Options


class MethodOptions(Options):
    """Base of a method's options: which method, and which named set of its options.

    `private` names, for a value of privacy.filter, options whose usual value does not go with it,
    and what is taken instead: (dotted key, usual value, value instead).
    """

    private: ClassVar[Mapping[str, tuple[tuple[str, Any, Any], ...]]] = {}
    name: str
    variant: str = "default"


@dataclass(frozen=True)
class Variant:
    """A named set of a method's options: one line on what it is, and the options that differ.

    They are named by dotted keys.
    """

    summary: str
    options: Mapping[str, Any] = field(default_factory=dict)

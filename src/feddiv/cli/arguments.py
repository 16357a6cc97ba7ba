"""Arguments that several commands take."""

from typing import Annotated

import typer

What = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[PRESET|FILE.toml] [KEY=VALUE]...",
        help="A preset or a TOML file (default: quickstart), then settings such as "
        "noise.rho=0.8 rounds=40 method.name=fedavg.",
        show_default=False,
    ),
]


def split_arguments(what: list[str] | None) -> tuple[str, list[str]]:
    """The experiment and its overrides; an argument with = in it is an override."""
    first, *rest = what or ["quickstart"]
    return ("quickstart", [first, *rest]) if "=" in first else (first, rest)

"""Arguments that several commands take."""

from typing import Annotated

import typer

from feddiv.cli.completion import complete_experiment

What = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[PRESET|FILE.toml] [KEY=VALUE]...",
        help="A preset or a TOML file (default: quickstart), then settings such as "
        "noise.rho=0.8 rounds=40 method.name=fedavg.",
        show_default=False,
        autocompletion=complete_experiment,
    ),
]


def examples(*commands: str) -> str:
    """The end of a command's help: commands to copy, each on a line of its own."""
    return "\n\n".join(("Examples:", *commands))


def split_arguments(what: list[str] | None) -> tuple[str, list[str]]:
    """The experiment and its overrides; an argument with = in it is an override."""
    first, *rest = what or ["quickstart"]
    if "=" not in first:
        return first, rest
    from feddiv.config.own_data import usual_preset

    sources = [item.partition("=")[2] for item in (first, *rest) if item.startswith("data.source=")]
    return usual_preset(sources), [first, *rest]

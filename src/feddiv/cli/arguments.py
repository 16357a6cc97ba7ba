"""Arguments that several commands take."""

from typing import Annotated, Any

import click
import typer

from feddiv.cli.completion import complete_experiment
from feddiv.core.did_you_mean import did_you_mean
from feddiv.core.errors import UserError

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

Allow = Annotated[
    list[str] | None,
    typer.Option(
        "--allow",
        metavar="PACKAGE.MODULE:NAME",
        help="A net, method or noise that the run or the model may import, which is running its "
        "code; by the import path that it names. May be given more than once.",
        show_default=False,
    ),
]


class OneOf(click.Choice):  # type: ignore[type-arg]  # generic since click 8.2
    """One of these words; a word that is like one of them may have been meant."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The word, if it is one of them."""
        if value in self.choices:
            return str(value)
        known = [str(choice) for choice in self.choices]
        what = param.name if param is not None else "word"
        raise UserError(
            f"{what} {value!r} is unknown{did_you_mean(value, known)}; there are {', '.join(known)}"
        )


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

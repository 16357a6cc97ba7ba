"""The command line, read from the commands themselves."""

import inspect
from collections.abc import Iterator

import click
import typer
from docs.generate.tables import table
from typer.models import ArgumentInfo
from typer.utils import get_params_from_function

from feddiv.cli.app import app


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command that does something, by its full name."""
    yield from _below("feddiv", typer.main.get_command(app))


def as_markdown() -> str:
    """The sections of the reference page."""
    return "\n\n".join(_markdown(name, command) for name, command in commands())


def _below(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield name, command
        return
    for sub, inner in command.commands.items():
        yield from _below(f"{name} {sub}", inner)


def _markdown(name: str, command: click.Command) -> str:
    context = click.Context(command, info_name=name)
    usage = " ".join(command.get_usage(context).removeprefix("Usage:").split())
    parts = [f"## `{name}`", command.help or "", f"```\n{usage}\n```"]
    if rows := [row for each in command.params if (row := _row(each, context))]:
        parts.append(table(["argument or option", "meaning", "default"], rows))
    return "\n\n".join(parts)


def _row(parameter: click.Parameter, context: click.Context) -> list[str] | None:
    if isinstance(parameter, click.Option):
        record = parameter.get_help_record(context)
        if record is None:
            return None
        return [f"`{record[0]}`", parameter.help or "", _default(parameter)]
    return [f"`{parameter.make_metavar(context)}`", _argument_help(context.command, parameter), ""]


def _argument_help(command: click.Command, parameter: click.Parameter) -> str:
    """As the command's function has it: click 8.5 forgets the help of typer's arguments."""
    assert command.callback is not None
    assert parameter.name is not None
    declared = get_params_from_function(inspect.unwrap(command.callback))[parameter.name].default
    assert isinstance(declared, ArgumentInfo)
    return declared.help or ""


def _default(option: click.Option) -> str:
    if isinstance(option.show_default, str):
        return option.show_default
    return "" if option.default in (None, False) else f"`{option.default}`"

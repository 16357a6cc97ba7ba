"""What `--help` says."""

import shlex
from collections.abc import Iterator

import click
import pytest
import typer

from feddiv.cli.app import app
from feddiv.cli.arguments import split_arguments
from feddiv.cli.audit_words import WithUsual
from feddiv.config.reading import load_experiment


def commands(
    group: click.Group, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command with the words that lead to it."""
    for name, found in group.commands.items():
        if isinstance(found, click.Group):
            yield from commands(found, (*path, name))
        elif isinstance(group, WithUsual) and name == group.usual:
            yield path, found  # it goes by the name of its group
        else:
            yield (*path, name), found


def root() -> click.Group:
    built = typer.main.get_command(app)
    assert isinstance(built, click.Group)
    return built


ALL = dict(commands(root()))
NAMES = [" ".join(path) for path in ALL]


def examples(of: click.Command) -> list[str]:
    assert of.epilog is not None
    heading, *lines = of.epilog.split("\n\n")
    assert heading == "Examples:"
    return lines


@pytest.mark.parametrize("path", ALL, ids=NAMES)
def test_every_command_has_examples_that_it_takes(path: tuple[str, ...]) -> None:
    found = ALL[path]
    for line in examples(found):
        program, *words = shlex.split(line)
        assert (program, tuple(words[: len(path)])) == ("feddiv", path)
        context = found.make_context(path[-1], words[len(path) :])
        if "what" in context.params:
            load_experiment(*split_arguments(context.params["what"]))


def test_the_examples_of_the_program_are_commands() -> None:
    for line in examples(root()):
        assert shlex.split(line)[:2] in [["feddiv", name] for name in NAMES]


@pytest.mark.parametrize("path", ALL, ids=NAMES)
def test_help_shows_examples_and_what_each_argument_is(path, command, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    said = " ".join(command(*path, "--help").out.split())
    for line in examples(ALL[path]):
        assert line in said
    for parameter in ALL[path].params:
        words = getattr(parameter, "help", None)
        if isinstance(parameter, click.Argument):
            assert words, f"{parameter.name} is not explained"
        if words:
            assert words.split()[0] in said

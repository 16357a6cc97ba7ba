"""Commands that pages tell people to type, given to the real parser without running them."""

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import click
import typer
from tests.docs.pages import ROOT, Code

from feddiv.cli.app import app
from feddiv.cli.arguments import split_arguments
from feddiv.cli.audit_words import WithUsual
from feddiv.config.experiment import Experiment
from feddiv.config.reading import load_experiment
from feddiv.core.errors import UserError
from feddiv.data.published.benchmarks import CATALOGUE
from feddiv.tables.studies import only_cells, scale_of, study_of, sweep_for
from feddiv.tables.sweep_file import read_sweep

PROGRAM = re.compile(r"(\.venv/bin/)?feddiv")
ASSIGNMENT = re.compile(r"[A-Z_]+=")
OWN_CODE = re.compile(r"(method|noise)\.name=[\w.]+:\w+")  # the reader's, not importable here


@dataclass(frozen=True)
class Command:
    """What follows `feddiv`, and where it is written."""

    where: str
    words: tuple[str, ...]
    inline: bool

    def __str__(self) -> str:
        return f"{self.where}: feddiv {shlex.join(self.words)}"


def commands(code: Code) -> Iterator[Command]:
    """Every call of feddiv, in blocks marked as bash and in sentences."""
    if not (code.inline or code.language == "bash"):
        return
    for number, line in enumerate(_lines(code.text)):
        if not re.search(r"\bfeddiv ", line):
            continue
        for words in _simple_commands(line):
            if PROGRAM.fullmatch(words[0]) and len(words) > 1:
                where = f"{code.file}:{code.line + number}"
                yield Command(where, tuple(words[1:]), code.inline)


def check(command: Command) -> None:
    """Raise what the command line would raise, before it does anything."""
    found, rest = _resolved(command.words)
    if command.inline and not rest:
        return  # the name of a command
    if any(word.endswith("-completion") for word in rest):
        return  # would be installed at once, in the home of whoever runs the tests
    try:
        context = found.make_context("feddiv", list(rest))
    except click.exceptions.Exit:
        return  # --help and --version
    if "what" in context.params:
        experiment_of(context.params["what"])
    if found.name in ("get", "check") and context.params["name"] not in (None, *CATALOGUE):
        raise UserError(f"{context.params['name']!r} is no published data set")
    if found.name == "reproduce":
        given = context.params
        names, cells = (
            given[each].split(",") if given[each] else None for each in ("methods", "cells")
        )
        study = only_cells(study_of(given["study"]), cells)
        sweep_for(study, scale_of(given["scale"]), names, given["seeds"])
    if found.name == "sweep" and str(context.params["file"]).startswith("benchmarks/"):
        read_sweep(ROOT / context.params["file"])


def experiment_of(what: Sequence[str] | None) -> Experiment:
    """The experiment; of a reader's own file what the settings after it say, on top of defaults."""
    own = {match[1] for word in what or () if (match := OWN_CODE.fullmatch(word))}
    kept = [word for word in what or () if word.partition(".")[0] not in own]
    source, overrides = split_arguments(kept or None)
    return load_experiment(None if source.endswith(".toml") else source, overrides)


def _resolved(words: Sequence[str]) -> tuple[click.Command, list[str]]:
    command, rest = typer.main.get_command(app), list(words)
    while isinstance(command, click.Group) and rest:
        if isinstance(command, WithUsual):
            rest = command.spelt_out(rest)
        if rest[0].startswith("-"):
            break
        if rest[0] not in command.commands:
            raise click.UsageError(f"no such command {rest[0]!r}")
        command = command.commands[rest.pop(0)]
    return command, rest


def _lines(text: str) -> list[str]:
    """Lines as a shell reads them, a continued one where it begins; the number of lines stays."""
    lines = text.split("\n")
    for number in range(len(lines) - 1, 0, -1):
        if lines[number - 1].endswith("\\"):
            lines[number - 1] = f"{lines[number - 1][:-1]} {lines[number]}"
            lines[number] = ""
    return lines


def _simple_commands(line: str) -> Iterator[list[str]]:
    """The commands of a line, without settings of the environment in front of them."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="&|;")
    lexer.whitespace_split = True
    words: list[str] = []
    for word in [*lexer, ";"]:
        if word.strip("&|;"):
            if words or not ASSIGNMENT.match(word):
                words.append(word)
        elif words:
            yield words
            words = []

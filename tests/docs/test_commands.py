"""What pages tell people to type is understood by the command line."""

import re

import click
import pytest
from tests.docs.pages import Code, code, code_of
from tests.docs.shell import Command, check, commands, experiment_of

from feddiv.core.errors import UserError

COMMANDS = [command for piece in code() for command in commands(piece)]


@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_a_command_on_a_page_is_understood(command: Command) -> None:
    try:
        check(command)
    except (UserError, click.ClickException) as error:
        reason = error.format_message() if isinstance(error, click.ClickException) else error
        pytest.fail(f"{command}\n  {reason}", pytrace=False)


def test_blocks_of_commands_are_marked_as_bash() -> None:
    names = "run|resume|show|list|predict|data|deploy|sweep|table|reproduce"
    call = re.compile(rf"^\$? ?(\.venv/bin/)?feddiv ({names})\b", re.MULTILINE)
    plain = [piece for piece in code() if not piece.inline and not piece.language]
    assert [piece.where for piece in plain if call.search(piece.text)] == []


def test_pages_have_commands_of_every_kind() -> None:
    first = {command.words[0] for command in COMMANDS}
    assert first >= {"run", "resume", "show", "list", "predict", "data", "deploy"}
    assert first >= {"sweep", "table", "reproduce"}


PAGE = """
Type `feddiv run quickstart
seed=3` or:

```bash
pip install .
FEDDIV_DATA=data .venv/bin/feddiv run quickstart \\
  rounds=5  # five
feddiv data get cifar10 && feddiv list
```

```
 feddiv      97.9%   98.9%
```
"""


def test_commands_are_found_in_sentences_and_blocks() -> None:
    found = [command for piece in code_of(PAGE) for command in commands(piece)]
    assert sorted((command.where, command.words) for command in found) == [
        ("page.md:2", ("run", "quickstart", "seed=3")),
        ("page.md:7", ("run", "quickstart", "rounds=5")),
        ("page.md:9", ("data", "get", "cifar10")),
        ("page.md:9", ("list",)),
    ]


@pytest.mark.parametrize(
    "typed",
    [
        "feddiv train quickstart",
        "feddiv run quickstrat",
        "feddiv run quickstart noise.roh=0.4",
        "feddiv run quickstart --worker 2",
        "feddiv run 'against=[\"fedcor\"]'",
        "feddiv data get cifar11",
        "feddiv list nets",
        "feddiv predict --photos runs/first",
    ],
)
def test_a_command_with_a_mistake_is_found(typed: str) -> None:
    (command,) = commands(Code("page.md", 1, typed, "bash"))
    with pytest.raises((UserError, click.ClickException)):
        check(command)


def test_a_readers_own_class_is_not_imported() -> None:
    experiment = experiment_of(["quickstart", "method.name=mine:Mine", "method.x=1", "rounds=40"])
    assert (experiment.method.name, experiment.rounds) == ("feddiv", 40)

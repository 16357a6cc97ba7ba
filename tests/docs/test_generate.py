"""How parts of pages are read from the code."""

from typing import Literal

from docs.generate.config_keys import Group, Key, variants_of
from docs.generate.explanations import comments_of, text_of
from docs.generate.tables import table
from pydantic import Field

from feddiv.core.options import Options


class Base(Options):
    """`size` counts."""

    size: int = Field(2, ge=1)  # how many
    colour: str = "red"


class Mine(Base):
    """A class of options."""

    # One line,
    # and another.
    mode: Literal["a", "b"] = "a"
    size: int = Field(3, ge=1)


def test_comments_beside_and_above_a_key_explain_it_also_where_it_is_set_anew() -> None:
    said = {"size": "how many", "colour": "", "mode": "One line, and another."}
    assert comments_of(Mine) == said


def test_a_base_class_speaks_of_the_keys_that_it_brings() -> None:
    assert text_of(Mine) == "A class of options.\n\n`size` counts."


def test_a_key_is_explained_by_its_comment_or_by_its_class() -> None:
    keys = tuple(Key(name, "", "", line) for name, line in (("a", ""), ("b", "B."), ("c", "")))
    assert Group("t", "As `a` says.", keys, 2).unexplained == ["c"]


def test_bars_in_a_cell_are_escaped_outside_of_code() -> None:
    assert table(["x"], [["a|b `c|d`"]]) == "| x |\n| --- |\n| a\\|b `c|d` |"


def test_what_a_variant_changes_is_bold() -> None:
    lines = variants_of("fedavg", ("default", "mixup")).splitlines()
    assert lines[0] == "| option | `fedavg` | `fedavg-mixup` |"
    assert lines[2] == "| `method.mixup` | `false` | **`true`** |"
    assert not any("**" in line for line in lines[3:])

"""What others wrote: on a terminal, in a log, in a spreadsheet."""

import pytest

from feddiv.core.spreadsheets import cell
from feddiv.core.terminal import shown
from feddiv.federation.reply_check import Refused, Undeclared


@pytest.mark.parametrize(
    "text",
    ["\x1b[2J", "a\nfeddiv: error", "\r", "\x9b31m", "\u202eevil", "a\u200bb", "\u2028", "\ud800"],
)
def test_nothing_that_acts_on_a_terminal_is_shown(text: str) -> None:
    assert shown(text).isprintable()
    assert shown(f"Zürich 北{text}").startswith("Zürich 北")


def test_what_is_too_long_is_cut() -> None:
    assert shown("x" * 60, 60) == "x" * 60
    assert shown("x" * 61, 60) == "x" * 59 + "…"
    assert len(shown("\x1b" * 10**7, 60)) == 60


def test_a_refusal_is_one_short_line_whatever_is_in_it() -> None:
    for kind in (Refused, Undeclared):
        line = str(kind("entry \x1b[2J\nfeddiv: round 3: fine" + "x" * 10**6))
        assert line.isprintable()
        assert len(line) == 300


@pytest.mark.parametrize("text", ["=1+2", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1"])
def test_formulas_become_text(text: str) -> None:
    assert cell(text) == "'" + text.replace("\t=", "\t'=").replace("\r=", "\r'=")


@pytest.mark.parametrize("text", ["-1", "+3", "-1.5e3", "7", "cat", "a-b", "a=b", "", "Zürich"])
def test_numbers_and_names_stay_as_they_are(text: str) -> None:
    assert cell(text) == text


def test_a_cell_cannot_be_smuggled_in_where_lines_are_split_at_semicolons() -> None:
    assert cell("cat;=1+2") == "cat;'=1+2"

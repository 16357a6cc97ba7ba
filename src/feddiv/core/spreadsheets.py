"""Tables that people open in a spreadsheet: what others wrote in them stays text."""

import re
from typing import Final

SEPARATORS: Final = (",", ";", "\t")  # of values; spreadsheets of many countries write ;
NUMBER: Final = re.compile(r"[+-]?[0-9]+(?:[.][0-9]*)?(?:[eE][+-]?[0-9]+)?")
# A spreadsheet takes a cell that begins so, also with wide signs, for a formula. Some split lines
# at ; or a tab too.
FORMULA: Final = re.compile(r"(?:^|(?<=[;\t\r\n]))(?=[=+\-@\t\r\uff1d\uff0b\uff0d\uff20])")

GUARDED: Final = re.compile(FORMULA.pattern.replace("(?=", "'(?="))


def separator(head: str) -> str:
    """What stands between the values of a table, by its first line, which names the columns.

    >>> separator("sample;label"), separator("label")
    (';', ',')
    """
    return max(SEPARATORS, key=head.count)


def cell(text: str) -> str:
    """A name as a cell of a CSV file: with an apostrophe before what would be a formula.

    Numbers stay numbers.

    >>> cell("=1+2"), cell("-scan.png"), cell("-1.5"), cell("cat")
    ("'=1+2", "'-scan.png", '-1.5', 'cat')
    """
    return text if NUMBER.fullmatch(text) else FORMULA.sub("'", text)


def behind_cell(text: str) -> str:
    """The name that a cell was made of; the cell itself where the apostrophe was the name's own.

    >>> behind_cell("'=1+2"), behind_cell("'cat'"), behind_cell("cat")
    ('=1+2', "'cat'", 'cat')
    """
    return GUARDED.sub("", text)

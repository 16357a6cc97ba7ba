"""Names that people give to the parts of a data set."""

import re
import unicodedata
from collections.abc import Iterable
from decimal import Decimal
from typing import Final

from feddiv.core.errors import UserError
from feddiv.core.terminal import shown
from feddiv.data.images.listing import some

TRAIN: Final = ("train", "training")
# The first of these that is there is the test set.
TEST: Final = ("test", "testing", "val", "valid", "validation")
NUMBER: Final = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?")


def is_train(name: str) -> bool:
    """Whether a name, in capitals or not, is that of the training set."""
    return name.casefold() in TRAIN


def is_split(name: str) -> bool:
    """Whether a name is that of the training set or of a test set."""
    return name.casefold() in TRAIN + TEST


def test_name(names: Iterable[str], where: str) -> str | None:
    """Which of these names is that of the test set, if any is."""
    found: dict[str, str] = {}
    for name in names:
        twin = found.setdefault(name.casefold(), name)
        if twin != name and is_split(name):
            raise UserError(f"{where}: there are both {twin} and {name}; rename one")
    return next((found[word] for word in TEST if word in found), None)


def composed(name: str) -> str:
    """A name in Unicode's composed form, whatever form it was typed in."""
    return unicodedata.normalize("NFC", name)


def is_utf8(name: str) -> bool:
    """Whether a name that was read from bytes was made of UTF-8."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def number_notes(classes: Iterable[str]) -> list[str]:
    """A line where classes differ only in how a number is written, as 1, 1.0 and 01."""
    by_value: dict[Decimal, list[str]] = {}
    for name in classes:
        if NUMBER.fullmatch(name):
            by_value.setdefault(Decimal(name), []).append(name)
    alike = [" and ".join(names) for names in by_value.values() if len(names) > 1]
    if not alike:
        return []
    return [f"classes that differ only in how a number is written: {some(alike)}; they stay apart"]


def one_spelling(names: Iterable[str], what: str) -> dict[str, str]:
    """Each name in Unicode's composed form; two that look the same are refused."""
    spelled: dict[str, str] = {}
    by_form: dict[str, str] = {}
    for name in names:
        if not is_utf8(name):
            raise UserError(f"{what} {shown(name)}: the name is not UTF-8; rename it")
        form = composed(name)
        if by_form.setdefault(form, name) != name:
            codes = " and ".join(ascii(each) for each in sorted((by_form[form], name)))
            raise UserError(
                f"{what} {form!r} is there twice, in two Unicode spellings ({codes}); rename one"
            )
        spelled[name] = form
    return spelled

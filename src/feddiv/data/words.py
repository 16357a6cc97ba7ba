"""Names that people give to the parts of a data set."""

import unicodedata
from collections.abc import Iterable
from typing import Final

from feddiv.data.images.catalogue import shown
from feddiv.errors import UserError

TRAIN: Final = ("train", "training")
# The first of these that is there is the test set.
TEST: Final = ("test", "testing", "val", "valid", "validation")


def test_word(words: Iterable[str]) -> str | None:
    """Which of these words names the test set, if any does."""
    found = set(words)
    return next((word for word in TEST if word in found), None)


def one_spelling(names: Iterable[str], what: str) -> dict[str, str]:
    """Each name in Unicode's composed form; two that look the same are refused."""
    spelled: dict[str, str] = {}
    by_form: dict[str, str] = {}
    for name in names:
        try:
            name.encode("utf-8")
        except UnicodeEncodeError:
            raise UserError(f"{what} {shown(name)}: the name is not UTF-8; rename it") from None
        form = unicodedata.normalize("NFC", name)
        if by_form.setdefault(form, name) != name:
            codes = " and ".join(ascii(each) for each in sorted((by_form[form], name)))
            raise UserError(
                f"{what} {form!r} is there twice, in two Unicode spellings ({codes}); rename one"
            )
        spelled[name] = form
    return spelled

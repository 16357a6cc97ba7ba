"""Texts in files of their own."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from feddiv.core.errors import UserError
from feddiv.core.given_files import read_given
from feddiv.core.terminal import shown
from feddiv.data.texts.texts import LONGEST, NoText, Texts, decoded

SUFFIX: Final = ".txt"


def read_text(path: Path) -> str:
    """The text of a file; UTF-8, and something in it."""
    try:
        return decoded(read_given(path, LONGEST))
    except NoText as problem:
        raise UserError(f"{shown(str(path))}: {problem}") from None
    except OSError as error:
        raise UserError(f"{shown(str(path))}: cannot be read ({error.strerror or error})") from None


def read_texts(root: Path, names: Sequence[str]) -> Texts:
    """The texts of these files, whose names start from the root."""
    return Texts.of((read_text(root / name) for name in names), names)

"""Names that others gave samples, classes and people, before they are written to files."""

from typing import Final

LONGEST_NAME: Final = 4096  # characters, as of a path


def check_name(what: str, text: str) -> None:
    """ValueError, in one line, for a name that some file could not hold, or not give back."""
    if len(text) > LONGEST_NAME:
        raise ValueError(
            f"{what} {text[:40]!r}…: has {len(text):,} characters, at most {LONGEST_NAME:,} are "
            "allowed"
        )
    if "\0" in text:
        raise ValueError(f"{what} {text[:40]!r}: has a zero byte in it, which no name can have")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(
            f"{what} {text[:40]!r}: has bytes in it that are no text; write it in UTF-8"
        ) from None

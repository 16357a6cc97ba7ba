"""What people read on a terminal: names that others gave, times."""

import re
from typing import Final

# Control characters, all kinds of line breaks, what turns the direction of writing around, and
# bytes of a file's name that are no text.
UNPRINTABLE: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def shown(text: str) -> str:
    """Text that can be printed anywhere, on one line, and does nothing to a terminal."""
    return UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def brief(text: str, most: int = 1000) -> str:
    """The beginning and the end of a text that is too long to be read."""
    if len(text) <= most:
        return text
    end = most // 3
    return f"{text[: most - end]} … {text[-end:]}"


def duration(seconds: float) -> str:
    """A time in the two units that matter."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"

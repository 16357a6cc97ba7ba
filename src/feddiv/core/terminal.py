"""What people read on a terminal: texts that others wrote, times."""

import re
from typing import Final

# Characters of what somebody else wrote: a name in a line, what a machine says, a line of a log.
NAME: Final = 60
SAID: Final = 300
LINE: Final = 2000

# Control characters, all kinds of line breaks, what turns the direction of writing around or is
# not seen, and bytes of a file's name that are no text.
UNPRINTABLE: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def shown(text: str, most: int | None = None) -> str:
    """Text that can be printed anywhere, on one line, and does nothing to a terminal.

    What came from another machine is cut after `most` characters, so that it fills no log.

    >>> shown("north\\x1b[2J", 60), shown("x" * 9, 4)
    ('north\\\\x1b[2J', 'xxx…')
    """
    if most is not None:
        text = text[: most + 1]  # first, as it may be megabytes
    plain = UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
    return plain if most is None or len(plain) <= most else plain[: most - 1] + "…"


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

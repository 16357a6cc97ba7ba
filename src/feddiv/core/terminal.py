"""Other people's names on a terminal."""

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

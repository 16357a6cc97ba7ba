"""Reading TOML that somebody else may have written."""

import re
import tomllib
from typing import Any, Final

from feddiv.core.given_files import SMALL

DEEPEST: Final = 100  # levels: keys in a dotted key
WIDEST: Final = 1 << 63  # TOML's whole numbers have 64 bits
# Between these a line has one key or one plain value, unless they are part of a text.
SEPARATORS: Final = re.compile(r"[=,\[\]{}]")


class NotToml(ValueError):
    """A text that is not TOML, and why."""


class Excessive(NotToml):
    """A text that may be TOML, but asks for more than any config needs."""


def parse_toml(text: str) -> dict[str, Any]:
    """The tree of a text."""
    if len(text) > SMALL:
        raise Excessive(f"it has {len(text):,} characters, at most {SMALL:,} are read")
    for line in text.splitlines():
        # The parser's time grows with the square of a key's depth.
        if line.count(".") > DEEPEST and any(
            part.count(".") > DEEPEST for part in SEPARATORS.split(line)
        ):
            raise Excessive(f"a key has more than {DEEPEST} dots")
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise NotToml(str(error)) from None
    except RecursionError:
        raise Excessive("it is nested too deeply") from None
    except MemoryError:
        raise Excessive("a number is too long") from None
    except ValueError:  # what Python says of more than 4300 digits
        raise Excessive("a number is too long") from None
    _check_numbers(tree)
    return tree


def _check_numbers(tree: dict[str, Any]) -> None:
    waiting: list[Any] = [tree]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, int) and not -WIDEST <= value < WIDEST:
            raise Excessive("a whole number has more than 64 bits")

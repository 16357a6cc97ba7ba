"""What somebody may have meant by a name that there is not."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

LONGEST: Final = 100  # characters of a name that somebody may have meant to type
ALIKE: Final = 0.65  # how alike two names have to be, from 0 to 1: difflib's own measure


def nearest(name: object, known: Iterable[str]) -> str | None:
    """The known name that is most like this one, if any is like it.

    >>> nearest("quikstart", ["quickstart", "own"])
    'quickstart'
    """
    if len(str(name)) > LONGEST:
        return None
    spelt = {each.casefold(): each for each in known}
    found = get_close_matches(str(name).casefold(), spelt, n=1, cutoff=ALIKE)
    return spelt[found[0]] if found else None


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """A question for the middle of an error about a name, or nothing.

    >>> did_you_mean("fedag", ["feddiv", "fedavg"])
    " (did you mean 'fedavg'?)"
    """
    found = nearest(name, known)
    return "" if found is None else f" (did you mean {found!r}?)"

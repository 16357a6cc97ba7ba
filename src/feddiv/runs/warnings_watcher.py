"""Who watches where the caller of `feddiv.run` does not: notes become Python's warnings."""

import sys
import warnings
from types import FrameType

from feddiv.core.errors import Note
from feddiv.core.terminal import brief, shown
from feddiv.runs.start_and_resume import Watcher


class WarningsWatcher(Watcher):
    """Warns of what the command line would print a line on, and is silent on the rest."""

    def note(self, line: str) -> None:
        """A warning that names the line of the caller."""
        warnings.warn(shown(brief(line)), Note, stacklevel=_callers_level())

    def refused(self, reason: str) -> None:
        """The same: a run goes on from an older checkpoint than the newest."""
        self.note(reason)


def _callers_level() -> int:
    """How far up the stack from `note` the line is that calls one of `feddiv`'s verbs."""
    frame, level = sys._getframe(1), 1
    while not _is_verb(frame) and frame.f_back is not None:
        frame, level = frame.f_back, level + 1
    return level + 1


def _is_verb(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).startswith("feddiv.verbs.")

"""What decisions can be about where labels come from a list that a run has written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from feddiv.data.corrections.file import read
from feddiv.data.corrections.subject import Subject


def listed_subject(
    names: Iterable[str], given: Iterable[str], classes: Sequence[str], file: Path
) -> Subject:
    """Samples of a list, beside which lies the file of decisions, if there are any yet.

    A run that used the file lists what it corrected under the new labels.
    """
    subject = Subject.of(names, given, classes)
    return subject.after(read(file).decisions) if file.exists() else subject

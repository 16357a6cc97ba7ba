"""A draw whose labels experts have confirmed or corrected."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from feddiv.core.arrays import Rows
from feddiv.core.errors import UserError
from feddiv.core.given_files import at_home, read_given
from feddiv.data.corrections.file import CORRECTIONS, MOST, read_in_turn
from feddiv.data.corrections.review import Review
from feddiv.data.corrections.subject import Subject
from feddiv.data.dataset import Dataset
from feddiv.data.draw.draw import Draw
from feddiv.data.watcher import DataWatcher

KEY: Final = "data.corrections"
CLIENT: Final = re.compile(r"\d{4,}")  # the folder of a client in that of a run


def with_corrections(
    draw: Draw,
    dataset: Dataset,
    given: Sequence[Path],
    watcher: DataWatcher | None = None,
    setting: str = KEY,
) -> Draw:
    """The draw under the labels that experts gave, which are trusted from now on.

    What they could not tell, what was skipped and what is in conflict stays as it is.
    """
    files = correction_files(given, setting)
    before = draw.given if draw.uncorrected is None else draw.uncorrected
    labels, trusted = before.copy(), np.zeros(len(before), np.bool_)
    numbers = {name: number for number, name in enumerate(dataset.classes)}
    notes: list[str] = []
    conflicts = 0
    for rows, names, paths in _by_subject(files, dataset, draw):
        own = [dataset.classes[label] for label in before[rows]]
        found = read_in_turn(paths, Subject.of(names, own, dataset.classes))
        review, row_of = Review.of(found.decisions), dict(zip(names, rows, strict=True))
        for sample, label in review.labels.items():
            labels[row_of[sample]], trusted[row_of[sample]] = numbers[label], True
        conflicts += len(review.conflicts)
        notes += found.notes
    if watcher is not None:
        changed = int((labels != before).sum())
        notes.append(
            f"{setting}: {int(trusted.sum()) - changed:,} labels confirmed and {changed:,} "
            "corrected by experts: every method trusts them"
        )
        if conflicts:
            notes.append(
                f"{setting}: reviewers disagree about {conflicts:,} samples, which stay as they "
                "are until that is settled"
            )
        for note in notes:
            watcher.note(note)
    return replace(
        draw,
        given=labels,
        trusted=trusted,
        uncorrected=before,
        corrections=files_digest(files),
    )


def note_changes(draw: Draw, given: Sequence[Path], watcher: DataWatcher) -> None:
    """A line where files say something else by now than when the run was begun."""
    try:
        changed = files_digest(correction_files(given)) != draw.corrections
    except UserError:  # they are gone, and nobody needs them
        return
    if changed:
        watcher.note(
            f"{KEY}: has changed since the run was begun, which goes on with the labels that it "
            "was begun with; begin a new run to use what is decided by now"
        )


def correction_files(given: Sequence[Path], setting: str = KEY) -> list[Path]:
    """The files themselves, and of folders all such files in them, in order of their paths."""
    files: list[Path] = []
    for path in map(at_home, given):
        if not path.is_dir():
            if not path.exists():
                raise UserError(f"{setting}={path}: there is no such file or folder")
            files.append(path)
            continue
        found = sorted(path.rglob(CORRECTIONS))
        if not found:
            raise UserError(f"{setting}={path}: has no {CORRECTIONS} in it")
        files += found
    return files


def files_digest(files: Iterable[Path]) -> str:
    """sha256 (hex) of what the files say, in their order."""
    digest = hashlib.sha256()
    for path in files:
        try:
            digest.update(hashlib.sha256(read_given(path, MOST)).digest())
        except OSError as error:
            raise UserError(f"{path}: cannot be read ({error.strerror or error})") from None
    return digest.hexdigest()


def _by_subject(
    files: Sequence[Path], dataset: Dataset, draw: Draw
) -> Iterable[tuple[Rows, list[str], list[Path]]]:
    """Which samples the files are about: all, or those of a client where names are not unique.

    Clients that number their own samples from 0 are told apart by the folder of a run that a file
    lies in, `clients/0003`.
    """
    clients = [_held(draw, client) for client in range(len(draw.parts))]
    everything = np.concatenate([np.empty(0, np.int64), *clients])
    names = [dataset.name_of(int(row)) for row in everything]
    if len(set(names)) == len(names):
        return [(everything, names, list(files))]
    groups: dict[int, list[Path]] = {}
    for path in files:
        folder = path.absolute().parent.name
        client = int(folder) if CLIENT.fullmatch(folder) else -1
        if not 0 <= client < len(clients):
            raise UserError(
                f"{KEY}={path}: clients of these data call their samples alike; name the folder "
                f"of a run, whose clients/0000/{CORRECTIONS} are of one client each"
            )
        groups.setdefault(client, []).append(path)
    ends = np.cumsum([0, *map(len, clients)])
    return [
        (clients[client], names[ends[client] : ends[client + 1]], paths)
        for client, paths in groups.items()
    ]


def _held(draw: Draw, client: int) -> Rows:
    held_out = [] if draw.held_out is None else [draw.held_out[client]]
    return np.concatenate([draw.parts[client], *held_out])

"""Several reviewers' files as one, and how far the reviewers agree."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Final

from feddiv.core.errors import UserError
from feddiv.core.files import write_bytes
from feddiv.core.given_files import check_no_link, check_writable
from feddiv.core.spreadsheets import cell
from feddiv.data.corrections.decision import Decision, DecisionKind, in_full
from feddiv.data.corrections.file import HEADER, MOST, DecisionFile, in_turn, read, text_of
from feddiv.data.corrections.review import Review

CANNOT_TELL: Final = ""  # a category of its own beside the labels
MOST_COMPARED: Final = 50  # reviewers: every two of them are compared


@dataclass(frozen=True)
class Agreement:
    """Two reviewers on the samples that both of them judged.

    `kappa` is Cohen's κ over the labels that they gave, "cannot tell" being one more: the share of
    agreement beyond chance, from that of strangers (0) to that of one mind (1). None where it is
    not defined: no sample was judged by both, or both gave all of them one and the same label.
    """

    reviewers: tuple[str, str]
    samples: int
    same: int
    kappa: float | None


def merged(files: Sequence[Sequence[Decision]]) -> list[Decision]:
    """All rows in order of time, each file's own order kept; what several files have, once.

    A row that a file has twice is twice there, such as a decision, its undoing and the same
    decision within a second. The result carries every reviewer's rows: `Review.of` it has their
    conflicts.
    """
    rows = heapq.merge(*map(_numbered, files), key=lambda row: in_full(row[0].time))
    return [decision for decision, _ in dict.fromkeys(rows)]


def _numbered(rows: Sequence[Decision]) -> Iterator[tuple[Decision, int]]:
    """Each row of a file, and how many of its like came before it."""
    before: Counter[Decision] = Counter()
    for row in rows:
        yield row, before[row]
        before[row] += 1


def agreements(decisions: Sequence[Decision]) -> list[Agreement]:
    """Of every two reviewers, by what each decided for themselves before anything was settled.

    Where there are more than `MOST_COMPARED`, of those who judged most.
    """
    kinds = (DecisionKind.SETTLE, DecisionKind.UNDO, DecisionKind.REDO)
    reviewers = {cell(each.reviewer) for each in decisions if each.decision not in kinds}
    said = {
        reviewer: {sample: each.label for sample, each in found.items() if each.judged}
        for reviewer, found in Review.of(decisions).own.items()
        if reviewer in reviewers  # not who only settled what others said
    }
    most = set(sorted(said, key=lambda name: -len(said[name]))[:MOST_COMPARED])
    compared = [name for name in said if name in most]
    return [_agreement(pair, said[pair[0]], said[pair[1]]) for pair in combinations(compared, 2)]


def _agreement(
    reviewers: tuple[str, str], first: dict[str, str], second: dict[str, str]
) -> Agreement:
    both = [(first[sample], second[sample]) for sample in first if sample in second]
    samples, same = len(both), sum(one == other for one, other in both)
    kappa = None
    if samples:
        ones, others = Counter(one for one, _ in both), Counter(other for _, other in both)
        by_chance = sum(ones[label] * others[label] for label in ones) / samples**2
        if by_chance < 1:
            kappa = (same / samples - by_chance) / (1 - by_chance)
    return Agreement(reviewers, samples, same, kappa)


def merge_files(paths: Sequence[Path], out: Path) -> DecisionFile:
    """Write the merge of these files, and of `out` if it is there already, to `out`.

    Nothing is lost by merging again: what was settled in `out` stays. Files about the same samples
    under different given labels are refused.
    """
    check_writable(out, "--out")
    check_no_link(out, "--out")
    with in_turn(out):  # from reading on: a decision that is added meanwhile would be lost
        found = [read(path) for path in [*paths, out]]
        rows = merged([each.decisions for each in found])
        _check_same_data(rows, paths)
        content = HEADER + text_of(rows).encode()
        if len(content) > MOST:
            raise UserError(f"--out {out}: would have more than {MOST:,} bytes")
        write_bytes(out, content)
    notes = [note for each in found for note in each.notes]
    notes += _namesakes(paths, [each.decisions for each in found[: len(paths)]])
    return DecisionFile(tuple(rows), tuple(notes))


def _namesakes(paths: Sequence[Path], files: Sequence[Sequence[Decision]]) -> list[str]:
    """A line for each name by which several files have rows of their own: who shares an account
    has its name by default. A copy of a file, or a later state of it, has no others."""
    by_name: dict[str, dict[Path, list[Decision]]] = {}
    for path, rows in zip(paths, files, strict=True):
        for each in rows:
            by_name.setdefault(cell(each.reviewer), {}).setdefault(path, []).append(each)
    notes = []
    for name, parts in by_name.items():
        counts = Counter(each for rows in parts.values() for each in set(rows))
        alone = [path for path, rows in parts.items() if any(counts[each] == 1 for each in rows)]
        if len(alone) < 2:
            continue
        said: dict[str, set[str]] = {}
        for path in alone:
            for sample, each in Review.of(parts[path]).by_reviewer[name].items():
                said.setdefault(sample, set()).update({each.label} - {""})
        differ = sum(len(labels) > 1 for labels in said.values())
        notes.append(
            f"{', '.join(map(str, alone))}: {name!r} is taken for one reviewer, whose later "
            f"decision counts (different labels: {differ:,}); if they are several "
            "people, change the column reviewer and merge into a new file"
        )
    return notes


def _check_same_data(rows: Sequence[Decision], paths: Sequence[Path]) -> None:
    """A sample has one given label; after a run with corrections also what they made of it."""
    given: dict[str, set[str]] = {}
    for each in rows:
        labels = given.setdefault(cell(each.sample), set())
        if labels and each.given_label not in labels:
            raise UserError(
                f"{', '.join(map(str, paths))}: are of different data (sample {each.sample!r} is "
                f"given as {each.given_label!r} and as {min(labels)!r})"
            )
        labels |= {each.given_label, each.label} - {""}

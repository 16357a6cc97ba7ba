"""What was decided about a site's labels: corrections.csv, held in memory and kept in step."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, Literal

from feddiv.core.errors import UserError
from feddiv.core.spreadsheets import cell
from feddiv.data.corrections import Decision, DecisionKind, Review, append, now, read
from feddiv.data.corrections.decision import in_full, later_than
from feddiv.data.corrections.file import HEADER, DecisionFile, text_of
from feddiv.review.label_list import LabelList

CONFLICT: Final = "conflict"
Choice = Literal["confirm", "label", "suggested", "cannot_tell", "skip"]
State = tuple[str, int]  # a kind of decision or CONFLICT, and the class that it makes or -1


@dataclass(frozen=True)
class Action:
    """What one stroke of a key decided: undone and redone as a whole."""

    samples: tuple[str, ...]
    kinds: frozenset[DecisionKind]


class Decisions:
    """Decisions on one list, by one reviewer and, in a merged file, by others before.

    Whatever a method has returned is on the disk. Undo and redo are read from the file too, so they
    outlive a reload and a restart. Another process may add to the file: it is looked at again
    whenever somebody asks. `version` counts rows, `epoch` is another whenever earlier rows may have
    changed. `notes` tell what a crash has left in the file.
    """

    notes: tuple[str, ...] = ()

    def __init__(self, labels: LabelList, reviewer: str) -> None:
        self.labels, self.reviewer = labels, reviewer
        self.path = labels.corrections
        above = (labels.folder, *labels.folder.parents)
        self._home = next(each for each in above if each.is_dir())
        self._place = {name: place for place, name in enumerate(labels.names)}
        self._class = {name: number for number, name in enumerate(labels.classes)}
        self._turn = threading.RLock()
        self._seen: tuple[int, int, int] | None = None
        self._read()

    def news(self, since: int = 0, epoch: str = "") -> dict[str, Any]:
        """The states that changed after so many rows, as JSON; all of them where that is unsure."""
        with self._turn:
            self._look()
            whole = epoch != self._epoch or not 0 <= since <= len(self._rows)
            changed = self._rows[0 if whole else since :]
            places = dict.fromkeys(self._place[each.sample] for each in changed)
            return {
                "version": len(self._rows),
                "epoch": self._epoch,
                "whole": whole,
                "states": {place: self._states.get(place) for place in places},
                "undo": self._said(self._done),
                "redo": self._said(self._undone),
            }

    def said(self, place: int) -> list[tuple[str, str, str]]:
        """(reviewer, kind, label) of everybody's last decision on a sample."""
        with self._turn:
            rows = self._by_sample.get(self.labels.names[place], [])
            who = Review.of(rows).by_reviewer.items()
            return [
                (name, each.decision.value, each.label)
                for name, last in who
                for each in last.values()
            ]

    def decide(self, places: Sequence[int], choice: Choice, label: int | None = None) -> None:
        """One action on these samples; those for which it would change nothing are left alone."""
        with self._turn:
            self._look()
            self._time = self._later()
            made = [self._made(place, choice, label) for place in dict.fromkeys(places)]
            self._add(each for each in made if each is not None)

    def undo(self) -> list[int]:
        """Take the reviewer's last action back; the samples that it was about."""
        return self._turned(DecisionKind.UNDO)

    def redo(self) -> list[int]:
        """Put the last action back that was undone; the samples that it is about."""
        return self._turned(DecisionKind.REDO)

    def _turned(self, kind: DecisionKind) -> list[int]:
        with self._turn:
            self._look()
            pile = self._done if kind is DecisionKind.UNDO else self._undone
            if not pile:
                return []
            self._time = self._later()
            places = [self._place[name] for name in pile[-1].samples]
            self._add(self._row(place, kind, "") for place in places)
            return places

    def _made(self, place: int, choice: Choice, label: int | None) -> Decision | None:
        """The row for one sample; None where nothing would change."""
        labels, state = self.labels, self._states.get(place)
        given = int(labels.given[place])
        if choice == "confirm":
            label = given
        elif choice == "suggested":
            label = given if labels.predicted is None else int(labels.predicted[place])
        elif choice != "label":
            label = -1
        assert label is not None
        if state is not None and state[0] in (CONFLICT, DecisionKind.SETTLE):
            kind = DecisionKind.SETTLE
            if choice == "skip":
                return None
        elif choice == "skip":
            kind = DecisionKind.SKIP
            if state is not None:  # moving on takes nothing back
                return None
        elif label < 0:
            kind = DecisionKind.CANNOT_TELL
        else:
            kind = DecisionKind.CONFIRM if label == given else DecisionKind.CORRECT
        if state == (kind.value, label) and self._have_said(place):
            return None
        return self._row(place, kind, "" if label < 0 else labels.classes[label])

    def _have_said(self, place: int) -> bool:
        """Whether this reviewer has decided about a sample, not only others."""
        rows = self._by_sample[self.labels.names[place]]
        return cell(self.reviewer) in Review.of(filter(self._mine, rows)).by_reviewer

    def _row(self, place: int, kind: DecisionKind, label: str) -> Decision:
        given = self.labels.classes[int(self.labels.given[place])]
        name = self.labels.names[place]
        return Decision(name, given, kind, label, self.reviewer, self._time)

    def _add(self, decisions: Iterable[Decision]) -> None:
        """To the file first, then to what is known here."""
        new = list(decisions)
        if not new:
            return
        self._settle_in()
        size = self._seen[1] if self._seen is not None else 0
        append(self.path, new)
        self.notes = ()  # what was written by half is cut off
        self._seen = self._signature()
        written = len(text_of(new).encode()) + (0 if size else len(HEADER))
        if self._seen is None or self._seen[1] != size + written:  # somebody else was there too
            self._read()
            return
        self._take(new)

    def _settle_in(self) -> None:
        """A client of a run gets its folder with its first decision."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(
                f"{self.path.parent}: cannot be made ({error.strerror or error}); the decision is "
                "not saved"
            ) from None
        self._home = self.path.parent

    def _later(self) -> str:
        """This moment; an action later than the one before it, as their times tell them apart."""
        try:
            return later_than(self._time) if self._time else now()
        except OverflowError:
            raise UserError(
                f"{self.path}: no time is later than that of its newest row, {self._time}"
            ) from None

    def _look(self) -> None:
        """Read the file again if it is not as it was left.

        What was moved or deleted is not begun anew in its old place: decisions would be in two.
        """
        seen = self._signature()
        gone = self._home if not self._home.is_dir() else self.path
        if gone is self._home or (seen is None and self._seen is not None):
            raise UserError(
                f"{gone}: is not there any more, and nothing is saved; put it back, or end the "
                "review and start it where it is now"
            )
        if seen != self._seen:
            self._read()

    def _signature(self) -> tuple[int, int, int] | None:
        try:
            facts = self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise UserError(f"{self.path}: cannot be read ({error.strerror or error})") from None
        return facts.st_mtime_ns, facts.st_size, facts.st_ino

    def _read(self) -> None:
        seen = self._signature()
        file = DecisionFile(()) if seen is None else read(self.path, self.labels.subject)
        found, self.notes = file.decisions, file.notes
        self._seen, self._epoch = seen, secrets.token_hex(4)
        self._rows: list[Decision] = []
        self._by_sample: dict[str, list[Decision]] = {}
        self._states: dict[int, State] = {}
        self._done: list[Action] = []
        self._undone: list[Action] = []
        self._time = max((each.time for each in found if self._mine(each)), default="", key=in_full)
        self._take(found)

    def _take(self, decisions: Sequence[Decision]) -> None:
        self._rows += decisions
        touched = dict.fromkeys(each.sample for each in decisions)
        for each in decisions:
            self._by_sample.setdefault(each.sample, []).append(each)
        for sample in touched:
            state = self._state(sample)
            place = self._place[sample]
            if state is None:
                self._states.pop(place, None)
            else:
                self._states[place] = state
        for _, group in groupby(decisions, key=lambda each: (each.reviewer, each.time)):
            rows = tuple(group)
            if self._mine(rows[0]):
                self._pile(rows)

    def _pile(self, rows: tuple[Decision, ...]) -> None:
        """One action of the reviewer on the piles of what can be undone and redone."""
        samples = tuple(each.sample for each in rows)
        kind = rows[0].decision
        if kind not in (DecisionKind.UNDO, DecisionKind.REDO):
            self._done.append(Action(samples, frozenset(each.decision for each in rows)))
            self._undone.clear()
            return
        back, forth = self._done, self._undone
        if kind is DecisionKind.REDO:
            back, forth = forth, back
        if back and set(back[-1].samples) == set(samples):
            forth.append(back.pop())

    def _state(self, sample: str) -> State | None:
        review = Review.of(self._by_sample[sample])
        if review.conflicts:
            return CONFLICT, -1
        last = review.current.get(sample)
        return None if last is None else (last.decision.value, self._class.get(last.label, -1))

    def _mine(self, decision: Decision) -> bool:
        return cell(decision.reviewer) == cell(self.reviewer)

    def _said(self, pile: Sequence[Action]) -> dict[str, Any] | None:
        """How many samples the last of these actions is about, and the place of the first."""
        if not pile:
            return None
        places = [self._place[name] for name in pile[-1].samples]
        return {"count": len(places), "place": min(places), "actions": len(pile)}


def check_choice(labels: LabelList, body: dict[str, Any]) -> tuple[list[int], Choice, int | None]:
    """What a page asks for; UserError where it is about no sample or no class of this list."""
    places, choice, label = body.get("places"), body.get("choice"), body.get("label")
    if not isinstance(places, list) or not places:
        raise UserError("places: a list of samples by their numbers is needed")
    for place in places:
        if type(place) is not int or not 0 <= place < len(labels):
            raise UserError(f"places: {place!r} is no sample; there are 0 to {len(labels) - 1}")
    if choice not in ("confirm", "label", "suggested", "cannot_tell", "skip"):
        raise UserError(f"choice: {choice!r} is none")
    if choice == "label" and (type(label) is not int or not 0 <= label < len(labels.classes)):
        raise UserError(f"label: {label!r} is no class; there are 0 to {len(labels.classes) - 1}")
    return places, choice, label if choice == "label" else None

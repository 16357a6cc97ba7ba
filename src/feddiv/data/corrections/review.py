"""What decisions come to: a fold over the rows of corrections.csv."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from feddiv.core.spreadsheets import cell
from feddiv.data.corrections.decision import Decision, DecisionKind

Pile = list[tuple[int, Decision]]  # with the numbers of their rows


@dataclass(frozen=True)
class Conflict:
    """Reviewers who gave a sample different labels: the decision of each, by name."""

    sample: str
    given_label: str
    decisions: Mapping[str, Decision]


@dataclass(frozen=True, eq=False)
class Review:
    """The state after all rows.

    `by_reviewer[reviewer][sample]` is the last decision of a reviewer on a sample that was not
    undone. `undone` has, in the same way, what `redo` would put back, and `own` what the reviewers
    said for themselves, whatever was settled after it. `settled` are decisions that ended a
    conflict, by sample. Samples and reviewers are in order of their first row.

    A file in which two reviewers decided, such as one that `merged` made, is loaded in the same
    way: `conflicts` lists what is to be settled, and `DecisionKind.SETTLE` rows, appended to that
    same file by anybody, settle it.
    """

    by_reviewer: Mapping[str, Mapping[str, Decision]]
    undone: Mapping[str, Mapping[str, Decision]]
    own: Mapping[str, Mapping[str, Decision]]
    settled: Mapping[str, Decision]

    @classmethod
    def of(cls, decisions: Iterable[Decision]) -> Review:
        """The fold: per reviewer and sample a pile of decisions; the topmost counts."""
        done: dict[str, dict[str, Pile]] = {}
        undone: dict[str, dict[str, Pile]] = {}
        for number, each in enumerate(decisions):
            who, sample = cell(each.reviewer), each.sample
            pile = done.setdefault(who, {}).setdefault(sample, [])
            aside = undone.setdefault(who, {}).setdefault(sample, [])
            if each.decision is DecisionKind.UNDO:
                if pile:  # two pages may undo the same
                    aside.append(pile.pop())
            elif each.decision is DecisionKind.REDO:
                if aside:
                    pile.append(aside.pop())
            else:
                pile.append((number, each))
                aside.clear()
        settling: dict[str, tuple[int, Decision]] = {}
        for piles in done.values():
            for sample, pile in piles.items():
                last = pile[-1] if pile else None
                if last is not None and last[1].decision is DecisionKind.SETTLE:
                    settling[sample] = max(settling.get(sample, last), last, key=lambda p: p[0])
        return cls(
            {who: _tops(piles) for who, piles in done.items()},
            {who: _tops(piles) for who, piles in undone.items()},
            {who: _tops(_unsettled(piles)) for who, piles in done.items()},
            {sample: last for sample, (_, last) in settling.items()},
        )

    @property
    def conflicts(self) -> list[Conflict]:
        """Samples that reviewers labelled differently and that nobody has settled.

        Somebody who cannot tell contradicts nobody.
        """
        return [
            Conflict(sample, next(iter(said.values())).given_label, said)
            for sample, said in self._said().items()
            if sample not in self.settled and len({each.label for each in said.values()}) > 1
        ]

    @property
    def current(self) -> dict[str, Decision]:
        """The decision that counts for each sample that has one; none where there is a conflict.

        A label counts more than that somebody could not tell, and that more than a skip.
        """
        rank = {DecisionKind.SKIP: 0, DecisionKind.CANNOT_TELL: 1}
        found: dict[str, Decision] = {}
        for decisions in self.by_reviewer.values():
            for sample, each in decisions.items():
                held = found.get(sample)
                if held is None or rank.get(each.decision, 2) > rank.get(held.decision, 2):
                    found[sample] = each
        found |= self.settled
        for conflict in self.conflicts:
            del found[conflict.sample]
        return found

    @property
    def labels(self) -> dict[str, str]:
        """The label of each sample that an expert confirmed or corrected."""
        return {sample: each.label for sample, each in self.current.items() if each.label}

    def _said(self) -> dict[str, dict[str, Decision]]:
        """By sample, who gave it which label."""
        said: dict[str, dict[str, Decision]] = {}
        for reviewer, decisions in self.by_reviewer.items():
            for sample, each in decisions.items():
                if each.label:
                    said.setdefault(sample, {})[reviewer] = each
        return said


def _unsettled(piles: Mapping[str, Pile]) -> dict[str, Pile]:
    """The piles without what settled a conflict."""
    return {
        sample: [each for each in pile if each[1].decision is not DecisionKind.SETTLE]
        for sample, pile in piles.items()
    }


def _tops(piles: Mapping[str, Pile]) -> dict[str, Decision]:
    return {sample: pile[-1][1] for sample, pile in piles.items() if pile}

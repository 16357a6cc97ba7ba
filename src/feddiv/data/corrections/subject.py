"""What decisions are about: samples by name, their given labels, and the classes there are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from feddiv.core.spreadsheets import cell
from feddiv.data.corrections.decision import Decision


@dataclass(frozen=True, eq=False)
class Subject:
    """Names are found as cells of a table have them: the apostrophe before a formula is ours.

    `samples` maps the cell of a sample to (its name, its given label), `labels` the cell of a class
    to its name. Names that several samples share are in `twice`: no decision can be about them.
    `before` has, by the cell of a sample, the label that it had before it was corrected.
    """

    samples: dict[str, tuple[str, str]]
    labels: dict[str, str]
    twice: frozenset[str] = frozenset()
    before: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, names: Iterable[str], given: Iterable[str], classes: Sequence[str]) -> Subject:
        """Samples by name with their given labels, both as the data or as labels.csv has them."""
        samples: dict[str, tuple[str, str]] = {}
        twice = set()
        for name, label in zip(names, given, strict=True):
            if cell(name) in samples:
                twice.add(cell(name))
            samples[cell(name)] = (name, label)
        return cls(samples, {cell(name): name for name in classes}, frozenset(twice))

    def after(self, decisions: Iterable[Decision]) -> Subject:
        """The same samples, listed by a run that used these decisions or some of them.

        Where a decision made the label that a sample has, the sample had another one before: that
        of its first row.
        """
        first: dict[str, str] = {}
        before: dict[str, str] = {}
        for each in decisions:
            sample = cell(each.sample)
            first.setdefault(sample, cell(each.given_label))
            _, label = self.samples.get(sample, ("", ""))
            if each.label and cell(each.label) == cell(label):
                before[sample] = first[sample]
        return replace(self, before=before)

    def own(self, decision: Decision, earlier: Iterable[str] = ()) -> Decision:
        """The decision in the data's own names; ValueError where it is not about these data.

        `earlier` are labels that decisions before this one gave the sample: a later run lists it
        under such a label.
        """
        sample = cell(decision.sample)
        if sample not in self.samples:
            raise ValueError(
                f"sample {decision.sample!r}: the data have no such sample; is it a corrections "
                "file for other data?"
            )
        if sample in self.twice:
            raise ValueError(f"sample {decision.sample!r}: several samples of the data are it")
        name, label = self.samples[sample]
        given, made = self._label(decision.given_label), decision.label
        known = given == label or cell(given) == self.before.get(sample)
        if not known and given not in earlier:
            raise ValueError(
                f"sample {decision.sample!r}: has label {label!r} in the data and "
                f"{decision.given_label!r} here: a corrections file for other data"
            )
        made = self._label(made) if made else made
        return replace(decision, sample=name, given_label=given, label=made)

    def given(self, sample: str) -> str:
        """The given label of a sample; ValueError where the data have no such sample."""
        if cell(sample) not in self.samples:
            raise ValueError(
                f"sample {sample!r}: the data have no such sample; is it a file for other data?"
            )
        return self.samples[cell(sample)][1]

    def same(self, label: str, other: str) -> bool:
        """Whether two texts are the same class; ValueError where one is none."""
        return self._label(label) == self._label(other)

    def _label(self, text: str) -> str:
        if cell(text) not in self.labels:
            some = list(self.labels.values())
            shown = ", ".join(some[:20]) + (", …" if len(some) > 20 else "")
            raise ValueError(f"label {text!r}: is no class of the data; these are {shown}")
        return self.labels[cell(text)]

"""The audit of one site's labels: a table, the worst first, and what can be said of all."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np

from feddiv.audits.estimate import Estimate, Judged
from feddiv.audits.sample_views import ShownSamples, View, nothing
from feddiv.core.arrays import Labels, Mask, Rows
from feddiv.methods.contract import Assessment

COLUMNS: Final = (
    "sample",
    "given_label",
    "predicted_label",
    "label_quality",
    "is_label_issue",
    "confidence",
    "action",
)
KEEP, RELABEL, REVIEW = "keep", "relabel", "review"
RELABEL_FROM: Final = 0.95  # confidence in the predicted label


@dataclass(frozen=True, eq=False)
class LabelAudit:
    """What is known of one site's labels.

    `given` are class numbers [n], `opinion` is of the same n samples; None where there is nothing
    to judge by. `trusted` [n] are labels that an expert vouches for: they are right, whatever the
    opinion. `name` says what the site calls its sample number i and `view` how it looks, `site` is
    the site's own name. `samples` are the data behind it, where they are here; `data` is where a
    site has them of its own. `missing` are lines about what is missing and why.
    """

    site: str
    classes: tuple[str, ...]
    given: Labels
    opinion: Assessment | None
    name: Callable[[int], str] = str
    view: View = nothing
    samples: ShownSamples | None = None
    data: Path | None = None
    missing: tuple[str, ...] = ()
    trusted: Mask | None = None

    def __len__(self) -> int:
        return len(self.given)

    @cached_property
    def judged(self) -> Judged | None:
        """Qualities and what follows from them; None where there is no opinion."""
        return None if self.opinion is None else Judged.of(self.opinion, self.trusted)

    @property
    def estimate(self) -> Estimate | None:
        """The share of wrong labels; None where there is no opinion."""
        return None if self.judged is None else self.judged.estimate

    @cached_property
    def ranking(self) -> Rows:
        """Numbers of the samples, the worst label first; in their order without an opinion."""
        return np.arange(len(self)) if self.judged is None else self.judged.ranking

    @cached_property
    def is_label_issue(self) -> Mask:
        """Which labels [n] are issues; none without an opinion."""
        return np.zeros(len(self), np.bool_) if self.judged is None else self.judged.issues

    def action(self, row: int) -> str:
        """What to do about a label: keep it, take the predicted one, or look at it."""
        if not self.is_label_issue[row] or self.opinion is None:
            return KEEP
        confidence = self.opinion.confidence
        other = self.opinion.predicted[row] != self.given[row]
        sure = confidence is not None and confidence[row] >= RELABEL_FROM
        return RELABEL if other and sure else REVIEW

    def columns(self) -> dict[str, list[Any]]:
        """The table, the worst label first; None where something is not known."""
        order = self.ranking.tolist()
        names, blank = np.array(self.classes, dtype=object), [None] * len(order)
        table: dict[str, list[Any]] = dict.fromkeys(COLUMNS, blank)
        table["sample"] = [self.name(row) for row in order]
        table["given_label"] = names[self.given[order]].tolist()
        if self.opinion is not None:
            table["predicted_label"] = names[self.opinion.predicted[order]].tolist()
            if self.opinion.confidence is not None:
                table["confidence"] = self.opinion.confidence[order].tolist()
        if self.judged is not None:
            table["label_quality"] = self.judged.quality[order].tolist()
            table["is_label_issue"] = self.is_label_issue[order].tolist()
            table["action"] = [self.action(row) for row in order]
        elif self.trusted is not None:  # all that is known without an opinion
            sure = self.trusted[order].tolist()
            table["is_label_issue"] = [False if each else None for each in sure]
            table["action"] = [KEEP if each else None for each in sure]
        return table

    def confusions(self) -> list[tuple[str, str, int]]:
        """(given, predicted, how many) among the issues, the commonest first."""
        if self.opinion is None:
            return []
        issues = np.flatnonzero(self.is_label_issue)
        given, predicted = self.given[issues], self.opinion.predicted[issues]
        pairs = Counter(zip(given.tolist(), predicted.tolist(), strict=True))
        ordered = sorted(pairs.items(), key=lambda pair: (-pair[1], pair[0]))
        return [(self.classes[g], self.classes[p], n) for (g, p), n in ordered if g != p]

    def by_class(self) -> list[tuple[str, int, float | None, int | None]]:
        """(class, labels given, share of them expected wrong, issues) of each that occurs.

        The last two are None where nobody has judged.
        """
        rows = []
        for number, name in enumerate(self.classes):
            mine = self.given == number
            if mine.any():
                wrong = issues = None
                if self.judged is not None:
                    wrong = float((1 - self.judged.quality[mine]).mean())
                    issues = int(self.judged.issues[mine].sum())
                rows.append((name, int(mine.sum()), wrong, issues))
        return rows


@dataclass(frozen=True, eq=False)
class LabelAudits:
    """The audits of several sites, each for itself."""

    sites: tuple[LabelAudit, ...]

    def __iter__(self) -> Iterator[LabelAudit]:
        return iter(self.sites)

    def __len__(self) -> int:
        return len(self.sites)

    def __getitem__(self, site: int) -> LabelAudit:
        return self.sites[site]

    @property
    def table(self) -> Any:
        """All tables under each other with a column `client`: a data frame of pandas, where it is
        installed, otherwise a dict of arrays."""
        columns: dict[str, list[Any]] = {"client": [], **{name: [] for name in COLUMNS}}
        for site in self.sites:
            columns["client"] += [site.site] * len(site)
            for name, values in site.columns().items():
                columns[name] += values
        try:
            import pandas
        except ImportError:
            return {name: np.array(values) for name, values in columns.items()}
        return pandas.DataFrame(columns)


def joined(parts: Sequence[Assessment]) -> Assessment:
    """Opinions of several groups of one site's samples as one; what one lacks, all lack."""

    def column(name: str) -> Any:
        found = [getattr(part, name) for part in parts]
        return None if any(each is None for each in found) else np.concatenate(found)

    return Assessment(
        column("predicted"),
        column("p_clean"),
        second_opinion=column("second_opinion"),
        confidence=column("confidence"),
    )

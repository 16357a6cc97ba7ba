"""Audits of sites that bring predicted probabilities: no data, no net, only a filter."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from feddiv.audits.folder import site_name
from feddiv.audits.label_audit import LabelAudit, LabelAudits
from feddiv.audits.probability_file import (
    LABEL,
    ProbabilityFile,
    as_array,
    checked_probabilities,
    numbered_labels,
)
from feddiv.audits.shared_filter import as_logits, shared_opinions
from feddiv.core.arrays import Array, Labels
from feddiv.core.errors import UserError

BLIND: Final = (
    "Nothing says which labels are wrong: by these predictions all labels are equally likely."
)


@dataclass(frozen=True, eq=False)
class Predictions:
    """What one site brings: probabilities [n, C], labels [n], names of its samples or none."""

    site: str
    classes: tuple[str, ...]
    probabilities: Array
    labels: Labels
    samples: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        site: str,
        probabilities: object,
        labels: object,
        classes: Sequence[str] | None = None,
        samples: Sequence[str] = (),
    ) -> "Predictions":
        """Checked; without names classes are called by their numbers, from 0."""
        values = checked_probabilities(site, probabilities)
        count = values.shape[1]
        names = tuple(map(str, range(count) if classes is None else classes))
        if len(names) != count or len(set(names)) != count or count < 2:
            raise UserError(
                f"{site}: {count} columns of probabilities for {len(set(names))} different "
                "classes; there have to be as many, 2 at least"
            )
        numbers = numbered_labels(site, as_array(labels), names, len(values))
        if samples and len(samples) != len(values):
            raise UserError(f"{site}: {len(samples)} names for {len(values)} samples")
        return cls(site, names, values, numbers, tuple(map(str, samples)))


def audits_of_predictions(sites: Sequence[Predictions]) -> LabelAudits:
    """What the sites find together; each one's audit is its own."""
    for site in sites:
        if site.classes != sites[0].classes:
            raise UserError(
                f"{site.site}: its classes are {', '.join(site.classes[:8])}, those of "
                f"{sites[0].site} {', '.join(sites[0].classes[:8])}; all have to have the same"
            )
    opinions = shared_opinions([(as_logits(each.probabilities), each.labels) for each in sites])
    return LabelAudits(
        tuple(
            LabelAudit(
                each.site,
                each.classes,
                each.labels,
                opinion,
                _names(each),
                missing=(BLIND,) if opinion.p_clean is None and len(each.labels) else (),
            )
            for each, opinion in zip(sites, opinions, strict=True)
        )
    )


def _names(site: Predictions) -> Any:
    return site.samples.__getitem__ if site.samples else str


def read_predictions(path: Path) -> Predictions:
    """A site's file that has its labels too."""
    file = ProbabilityFile.read(path, "--probabilities")
    if file.labels is None:
        raise UserError(
            f"{file.where}: labels are missing (an array 'labels', or a table's column "
            f"{' or '.join(LABEL)})"
        )
    found = Predictions.of(file.where, file.probabilities, file.labels, file.classes, file.samples)
    return replace(found, site=site_name(path.stem))

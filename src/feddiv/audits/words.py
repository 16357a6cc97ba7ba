"""An audit in words."""

from feddiv.audits.estimate import Estimate
from feddiv.audits.label_audit import LabelAudit

FEW = 100  # labels below which an estimate is rough


def percent(share: float) -> str:
    """A share as whole percent, without making little of few: 0.3 % is not 0 %.

    >>> percent(0.312), percent(0.003), percent(0.0), percent(0.9997)
    ('31 %', '0.3 %', '0 %', '99.9 %')
    """
    if 0 < share < 0.01:
        return f"{max(100 * share, 0.1):.1f} %"
    if 0.99 < share < 1:
        return f"{min(100 * share, 99.9):.1f} %"
    return f"{100 * share:.0f} %"


def share_in_words(estimate: Estimate) -> str:
    """The share and its interval: 31 % (28 to 34)."""
    if estimate.low is None or estimate.high is None:
        return percent(estimate.share)
    return f"{percent(estimate.share)} ({100 * estimate.low:.0f} to {100 * estimate.high:.0f})"


def verdict(audit: LabelAudit) -> list[str]:
    """What the audit says, in a few sentences."""
    judged = audit.judged
    if not len(audit):
        return ["There are no labels here."]
    alone = one_class(audit)
    of_one = [] if alone is None else [f"All labels of this site are of one class, {alone}."]
    if judged is None:
        return [f"Nobody has judged these {len(audit):,} labels.", *of_one]
    lines = [f"About {share_in_words(judged.estimate)} of these {len(audit):,} labels look wrong."]
    sure = judged.almost_sure
    if judged.count == 0:
        lines.append("None of them is listed as an issue.")
    elif sure >= judged.count:
        lines.append(f"The first {judged.count:,} of the list are almost surely wrong.")
    elif sure:
        lines.append(
            f"The first {sure:,} of the list are almost surely wrong; of the first "
            f"{judged.count:,}, which are the issues, "
            f"about {percent(judged.precision(judged.count))} are."
        )
    else:
        expected = percent(judged.precision(judged.count))
        lines.append(f"{judged.count:,} are listed as issues, about {expected} of them rightly.")
    if judged.estimate.low is None:
        lines.append("How sure that is cannot be said: only one opinion was asked.")
    if len(audit) < FEW:
        lines.append(f"With fewer than {FEW} labels this is rough.")
    return lines + of_one


def one_class(audit: LabelAudit) -> str | None:
    """The class that all labels are of, where they are of one."""
    found = set(audit.given.tolist())
    return audit.classes[found.pop()] if len(found) == 1 else None

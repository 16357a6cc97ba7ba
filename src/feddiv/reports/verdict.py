"""Whether a run is good, and why, in sentences that numbers stand behind."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from feddiv.core.terminal import SAID, shown
from feddiv.reports.client_quality import by_client, clients_of, hardest
from feddiv.reports.ending import Ending, counted
from feddiv.reports.record import RunRecord, listed
from feddiv.runs.curve import LAST, rise

Mark = Literal["good", "bad", "plain"]
AHEAD: Final = 0.005  # less is no difference
FALLEN: Final = 0.05  # from the best round to the last ones
SWING: Final = 0.1  # within the last ten rounds
GOOD_F1, POOR_F1 = 0.9, 0.7
WELL_GUESSED: Final = 0.05  # of the share of wrong labels
LEARNT_BY_HEART: Final = 0.25  # of the wrong labels
WEAK_CLASS: Final = 0.5  # of the mean over classes


@dataclass(frozen=True)
class Finding:
    """One sentence, and whether it is good news."""

    mark: Mark
    words: str


def findings(run: RunRecord, others: Sequence[RunRecord] = ()) -> list[Finding]:
    """What is to be said of a run, beside others on the same page; the weightiest first."""
    rivals = [each for each in others if _comparable(run, each)]
    ending = Ending.of([run, *others])
    found = [
        _progress(run),
        *_accuracy(run, rivals, ending),
        _corrections(run),
        *_filter(run),
        _memorised(run, rivals),
        _classes(run),
        _left_out(run),
        _against_others(run),
    ]
    return [each for each in found if each is not None]


def percent(share: float | None) -> str:
    """A share for people."""
    return "–" if share is None else f"{share:.1%}"


def _comparable(run: RunRecord, other: RunRecord) -> bool:
    """Measured alike, on the same draw."""
    same = run.measure == other.measure and other is not run
    if run.ended and other.ended:
        return same and run.summary.get("draw") == other.summary.get("draw")
    return same and other.folder.parent.parent == run.folder


def _progress(run: RunRecord) -> Finding | None:
    if run.ended:
        return None
    asked = run.rounds_asked or "?"
    done = f"{run.spent[-1] if run.rounds else 0:g} of {asked} rounds"
    if run.visits.refused:
        why = shown(run.visits.why, SAID)
        words = f"The run has not ended: {done} are done, and replies were refused ({why})."
        return Finding("bad", words)
    if not run.rounds:
        return Finding("plain", f"No round is over yet; {asked} are asked for.")
    return Finding("plain", f"The run has not ended: {done} are done; all figures are so far.")


def _accuracy(run: RunRecord, rivals: Sequence[RunRecord], ending: Ending) -> list[Finding]:
    mean, best = ending.mean(run), run.accuracy["best"]
    if mean is None:
        measured = run.accuracy["last"]
        if measured is None:
            return [Finding("plain", "No accuracy was measured.")] if run.rounds else []
        words = f"Accuracy is {percent(measured)}, in warm-up so far."
        return [Finding("plain", words)]
    words, mark = f"Accuracy ends at {percent(mean)}, {ending.words}", "plain"
    against = [(ending.mean(other), other.label) for other in rivals]
    known = [(value, label) for value, label in against if value is not None]
    if known:
        value, label = max(known)
        ahead = mean - value
        mark = "good" if ahead > AHEAD else "bad" if ahead < -AHEAD else "plain"
        where = "above" if ahead >= 0 else "below"
        best_of = "the best of the others, " if len(known) > 1 else ""
        words += f", {100 * abs(ahead):.1f} points {where} {best_of}{label}"
        few = "round" if ending.rounds == 1 else ending.rounds
        words += "" if ending.rounds == LAST else f" in its last {few}"
    found = [Finding(mark, f"{words}.")]  # type: ignore[arg-type]
    curve = counted(run)
    risen = rise(curve)
    if risen is not None:
        words = f"It still rises, by {100 * risen:.1f} points over the last {LAST} measured rounds:"
        found.append(Finding("plain", f"{words} more rounds would help."))
        return found
    last = run.accuracy["last"] or 0.0
    swing = float(np.ptp(curve[-LAST:])) if len(curve) >= LAST else 0.0
    if best is not None and best - max(mean, last) > FALLEN:
        when = "" if run.best_round is None else f" in round {run.best_round:g}"
        found.append(Finding("bad", f"It was {percent(best)}{when} and has fallen since."))
    if swing > SWING:
        words = f"It swings by {100 * swing:.0f} points within the last {LAST} measured rounds."
        found.append(Finding("bad", words))
    return found


def _corrections(run: RunRecord) -> Finding | None:
    """What experts changed before the run began."""
    confirmed, corrected = (run.total(f"corrections.{key}") for key in ("confirmed", "corrected"))
    if confirmed is None or corrected is None:
        return None
    words = (
        f"Experts confirmed {confirmed:,.0f} labels and corrected {corrected:,.0f}, which the "
        "method trusts"
    )
    before, after = (run.total(f"corrections.wrong_{when}") for when in ("before", "after"))
    if before is None or after is None:
        return Finding("plain", f"{words}.")
    mark: Mark = "good" if after < before else "plain"
    words += f": {percent(before)} of all labels were wrong before, {percent(after)} are now."
    mistaken = run.total("corrections.wrong_trusted")
    if mistaken is not None:
        count = f"{mistaken:,.0f}" if mistaken else "none"
        words += f" Of the experts' own labels {count} {'is' if mistaken <= 1 else 'are'} wrong."
    return Finding(mark, words)


def _filter(run: RunRecord) -> list[Finding]:
    quality = {key: _end(run, f"filter.{key}") for key in ("f1", "precision", "recall")}
    flagged, wrong = run.total("flagged"), run.total("wrong")
    f1, precision, recall = quality.values()
    found = []
    if f1 is not None and wrong == 0:
        mark: Mark = "good" if flagged is None or flagged <= WELL_GUESSED else "bad"
        words = f"No label is wrong; the filter flags {percent(flagged)} of them."
        found.append(Finding(mark, words))
    elif f1 is not None:
        mark = "good" if f1 >= GOOD_F1 else "bad" if f1 < POOR_F1 else "plain"
        words = f"The filter finds {percent(recall)} of the wrong labels"
        words += f", and {percent(precision)} of what it flags is wrong (F1 {f1:.3f})."
        found.append(Finding(mark, words))
    if f1 is not None:
        clients, judged = clients_of(run), by_client(run)
        worst = hardest(clients, judged, clean=True)
        accuracy = None if worst is None else judged[worst].accuracy
        if worst is not None and accuracy is not None and accuracy < 1 - WELL_GUESSED:
            name = next(each.name for each in clients if each.client == worst)
            words = f"Clean client {shown(name)} is judged worst of the clean ones:"
            found.append(
                Finding("bad", f"{words} {percent(1 - accuracy)} of its right labels are flagged.")
            )
    elif flagged is not None and wrong is None:
        words = f"{percent(flagged)} of the labels are flagged; the true ones are not known, so"
        found.append(Finding("plain", f"{words} nobody can say how rightly."))
    elif run.rounds and run.ended:
        found.append(Finding("plain", "The method has no opinion on single labels."))
    if flagged is not None and wrong and f1 is not None:
        near = abs(flagged - wrong) <= WELL_GUESSED
        words = f"It takes {percent(flagged)} of the labels for wrong; {percent(wrong)} are."
        found.append(Finding("good" if near else "bad", words))
    return found


def _end(run: RunRecord, key: str) -> float | None:
    """A number at the end of the run, else of the last round that has it."""
    if run.ended:
        return run.total(key)
    return next((value for value in reversed(run.column(key)) if value is not None), None)


def _memorised(run: RunRecord, rivals: Sequence[RunRecord]) -> Finding | None:
    share = _end(run, "memorisation")
    if share is None:
        return None
    known = [(value, each.label) for each in rivals if (value := _end(each, "memorisation"))]
    beside = "".join(f"; {label} {percent(value)}" for value, label in known[:3])
    words = f"The model has learnt {percent(share)} of the wrong labels by heart{beside}."
    return Finding("bad" if share > LEARNT_BY_HEART else "good", words)


def _classes(run: RunRecord) -> Finding | None:
    """The class that falls behind the others, if one does."""
    lines = (listed(line.get("per_class_accuracy")) for line in reversed(run.rounds))
    last = next((values for values in lines if values), [])
    known = [(value, place) for place, value in enumerate(last) if value is not None]
    if len(known) < 2:
        return None
    mean = sum(value for value, _ in known) / len(known)
    weak = [(value, place) for value, place in known if value < WEAK_CLASS * mean]
    if not weak:
        return None
    names = ", ".join(
        f"{shown(run.classes[place], 40) if place < len(run.classes) else place} ({percent(value)})"
        for value, place in sorted(weak)[:3]
    )
    more = f" and {len(weak) - 3} more" if len(weak) > 3 else ""
    return Finding("bad", f"Classes far below the mean of {percent(mean)}: {names}{more}.")


def _against_others(run: RunRecord) -> Finding | None:
    visits = run.visits
    counts = [(visits.left_out, "did not count"), (visits.turned_back, "counted turned back")]
    words = " and ".join(f"{count} {what}" for count, what in counts if count)
    if not words:
        return None
    return Finding("plain", f"Of the clients' models {words}: they point against the others'.")


def _left_out(run: RunRecord) -> Finding | None:
    visits = run.visits
    if not visits.refused and not visits.missing:
        return None
    counts = [(visits.missing, "did not come"), (visits.refused, "were refused")]
    words = " and ".join(f"{count} {what}" for count, what in counts if count)
    return Finding("plain" if not visits.refused else "bad", f"Of the clients' replies {words}.")

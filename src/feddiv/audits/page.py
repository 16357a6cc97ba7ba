"""labels.html: the audit of one site's labels, for whoever goes through them."""

from collections.abc import Iterator
from typing import Final

from feddiv.audits.estimate import SURE, Judged
from feddiv.audits.label_audit import REVIEW, LabelAudit
from feddiv.audits.labels_file import LABELS
from feddiv.audits.words import percent, share_in_words, verdict
from feddiv.pages import Html, facts, page, section, table, tag
from feddiv.pages.page import shipped

PAGE: Final = "labels.html"
WORST: Final = 60  # samples in the gallery
EACH: Final = 4  # of every class, among them where the worst of all are of other classes
PAIRS: Final = 12  # commonest confusions
CUTS: Final = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 50_000)


def labels_page(audit: LabelAudit) -> str:
    """The text of the page."""
    judged = audit.judged
    parts = {"summary": ("Summary", _summary(audit))}
    if judged is not None and len(audit):
        parts["worst"] = ("The worst", _gallery(audit))
        parts["precision"] = ("How far to go", _precision(audit, judged))
        parts["confusions"] = ("Confusions", _confusions(audit))
    if len(audit):
        parts["classes"] = ("Classes", _classes(audit))
    return page(
        f"Labels of {audit.site}",
        [content for _, content in parts.values()],
        subtitle=f"{len(audit):,} labels; the whole list is {LABELS}, beside this page",
        contents={place: name for place, (name, _) in parts.items()},
        styles=[shipped("labels.css", "feddiv.audits")],
    )


def _summary(audit: LabelAudit) -> Html:
    said = [tag("p", line, class_="lead") for line in verdict(audit)]
    missing = [tag("p", line, class_="missing") for line in audit.missing]
    judged, tiles = audit.judged, None
    if judged is not None and len(audit):
        actions = [audit.action(row) for row in range(len(audit))]
        reviewed = actions.count(REVIEW)
        tiles = facts(
            [
                ("labels", f"{len(audit):,}"),
                ("look wrong", share_in_words(judged.estimate)),
                ("issues", f"{judged.count:,}", "as many as are expected to be wrong"),
                ("almost surely wrong", f"{judged.almost_sure:,}", f"{SURE:.0%} of them or more"),
                ("to review", f"{reviewed:,}", "the model is not sure of another label"),
                ("to relabel", f"{judged.count - reviewed:,}", "the model is sure of another"),
            ]
        )
    return section("summary", "Summary", said, missing, tiles)


def _gallery(audit: LabelAudit) -> Html:
    assert audit.judged is not None
    chosen = list(_chosen(audit))
    if not chosen:
        return section("worst", "The worst", note="No label looks wrong.")
    classes = len({int(audit.given[row]) for row in chosen})
    each = f"; of each of {classes} classes {EACH} at least, where so many are doubted"
    note = (
        f"The {len(chosen)} most doubtful labels, the worst first{each if classes > 1 else ''}. "
        "Given label, then the one that the model would give."
    )
    figures = [_figure(audit, row) for row in chosen]
    return section("worst", "The worst", tag("div", figures, class_="gallery"), note=note)


def _chosen(audit: LabelAudit) -> Iterator[int]:
    """The worst issues; a class whose issues are fewer has its own worst among them."""
    issues = [int(row) for row in audit.ranking if audit.is_label_issue[row]]
    seen: dict[int, int] = {}
    for place, row in enumerate(issues):
        label = int(audit.given[row])
        seen[label] = seen.get(label, 0) + 1
        if place < WORST or seen[label] <= EACH:
            yield row


def _figure(audit: LabelAudit, row: int) -> Html:
    assert audit.judged is not None
    assert audit.opinion is not None
    given = audit.classes[audit.given[row]]
    predicted = audit.classes[audit.opinion.predicted[row]]
    confidence = audit.opinion.confidence
    sure = "" if confidence is None else f", confidence {percent(float(confidence[row]))}"
    look = audit.view(row)
    return tag(
        "figure",
        tag("div", look, class_="look") if look else None,  # nobody has the sample here
        tag(
            "figcaption",
            tag("span", given, class_="given"),
            " → ",
            tag("span", predicted, class_="suggested"),
            tag("span", audit.name(row), class_="name"),
            tag(
                "span",
                f"quality {audit.judged.quality[row]:.3f}{sure}; {audit.action(row)}",
                class_="name",
            ),
        ),
    )


def _precision(audit: LabelAudit, judged: Judged) -> Html:
    cuts = sorted({*(cut for cut in CUTS if cut < len(audit)), judged.count, len(audit)} - {0})
    wrong = float((1 - judged.quality).sum())
    rows = []
    for cut in cuts:
        found = cut * judged.precision(cut)
        name = f"{cut:,}" + (" (the issues)" if cut == judged.count else "")
        share = percent(found / wrong) if wrong else "-"
        rows.append((name, percent(judged.precision(cut)), f"{found:,.0f}", share))
    note = "Go through the list from its beginning: of the first so many labels, how many are wrong"
    columns = ("first", "wrong among them", "that is", "of all wrong ones")
    return section(
        "precision", "How far to go", table(columns, rows, numbers=(0, 1, 2, 3)), note=f"{note}?"
    )


def _confusions(audit: LabelAudit) -> Html:
    pairs = audit.confusions()
    if not pairs:
        return section("confusions", "Confusions", note="No label is doubted for another class.")
    rows = [(given, predicted, f"{count:,}") for given, predicted, count in pairs[:PAIRS]]
    more = len(pairs) - len(rows)
    note = "Which classes are taken for which, among the issues" + (
        f"; {more:,} rarer pairs are left out." if more else "."
    )
    columns = ("given", "the model says", "labels")
    return section("confusions", "Confusions", table(columns, rows, numbers=(2,)), note=note)


def _classes(audit: LabelAudit) -> Html:
    rows = [
        (
            name,
            f"{count:,}",
            "" if wrong is None else percent(wrong),
            "" if issues is None else f"{issues:,}",
        )
        for name, count, wrong, issues in audit.by_class()
    ]
    columns = ("given label", "labels", "expected wrong", "issues")
    return section("classes", "Classes", table(columns, rows, numbers=(1, 2, 3)))

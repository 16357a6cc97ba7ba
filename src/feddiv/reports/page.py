"""The page of a run, or of several side by side: what it says, and where its charts go."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from feddiv.core.dotted import flat
from feddiv.core.terminal import NAME, duration, shown
from feddiv.pages import Html, facts, page, section, table, tag
from feddiv.pages.markup import Content
from feddiv.pages.page import shipped
from feddiv.reports.content import content
from feddiv.reports.ending import Ending
from feddiv.reports.palette import COLOURS, Style, styles
from feddiv.reports.record import RunRecord
from feddiv.reports.sections import (
    accuracy_section,
    by_run,
    clients_section,
    cost_section,
    filter_section,
    labels_section,
    ranking_section,
    said,
    training_section,
)
from feddiv.reports.spending import pace, size, spent
from feddiv.reports.verdict import findings, percent

PACKAGE: Final = "feddiv.reports"
MARKS: Final = {"good": "✓", "bad": "!", "plain": "·"}


def report_page(records: Sequence[RunRecord]) -> str:
    """The text of the page; the first run is the one that it is about."""
    main, data = records[0], content(records)
    parts = {
        "overview": ("Overview", _overview(records)),
        "accuracy": ("Accuracy", accuracy_section(records)),
        "filter": ("Filter", filter_section(data)),
        "clients": ("Clients", clients_section(records, data)),
        "ranking": ("p(clean)", ranking_section(data)),
        "labels": ("Labels", labels_section(data)),
        "training": ("Training", training_section(data)),
        "cost": ("Cost", cost_section(records)),
        "config": ("Config", _config(records)),
    }
    legend = tag("div", id="legend", aria_label="Runs") if len(records) > 1 else None
    return page(
        _title(records),
        legend,
        [section(place, name, body) for place, (name, body) in parts.items()],
        tag("footer", _footer(main)),
        subtitle=_subtitle(main),
        contents={place: name for place, (name, _) in parts.items()},
        styles=(shipped("charts.css"), _colours(), shipped("report.css", PACKAGE)),
        scripts=(shipped("charts.js"), shipped("report.js", PACKAGE)),
        data=data,
    )


def _title(records: Sequence[RunRecord]) -> str:
    source = shown(str(records[0].setting("data.source")), NAME)
    first, *others = dict.fromkeys(shown(record.label, NAME) for record in records)
    named = ", ".join(others[:2])
    more = f" and {len(others) - 2} more" if len(others) > 2 else ""
    return f"{first} against {named}{more} on {source}" if others else f"{first} on {source}"


def _subtitle(run: RunRecord) -> str:
    said = []
    if run.draw is not None and run.draw.parts:
        said.append(f"{len(run.draw.parts)} client{'s' * (len(run.draw.parts) != 1)}")
    if run.rounds_asked is not None:
        done = "" if run.ended else f"{run.spent[-1]:g} of " if run.rounds else "0 of "
        said.append(f"{done}{run.rounds_asked} round{'s' * (run.rounds_asked != 1)}")
    said.append(f"seed {run.config.get('seed')}")
    wrong = run.total("wrong")
    if wrong is not None:
        said.append(f"{percent(wrong)} of the given labels wrong")
    return f"{', '.join(said)} · {shown(run.folder.resolve().name, NAME)}"


def _colours() -> str:
    named = {name: f"light-dark({light}, {dark})" for name, (light, dark) in COLOURS.items()}
    return ":root {" + "".join(f"--{name}:{value};" for name, value in named.items()) + "}"


def _overview(records: Sequence[RunRecord]) -> list[Html]:
    main, ending = records[0], Ending.of(records)
    found = [
        tag(
            "li",
            tag("i", MARKS[each.mark], aria_hidden="true"),
            tag("span", each.words),
            class_=each.mark,
        )
        for each in findings(main, records)
    ]
    result = [tag("ul", found, class_="findings"), facts(_figures(main, ending))]
    if len(records) > 1:
        result.append(tag("div", _results(records, ending), class_="results"))
    return result


def _figures(run: RunRecord, ending: Ending) -> list[tuple[str, ...]]:
    """The headline figures that a run has."""
    accuracy, when = run.accuracy, run.best_round
    measure, averaged = run.measure.replace("_", " "), ending.words.removeprefix("the ")
    figures: list[tuple[str, ...]] = [
        (f"{measure}, {ending.name}", percent(ending.mean(run)), averaged),
        ("best", percent(accuracy["best"]), "" if when is None else f"in round {when:g}"),
        ("last", percent(accuracy["last"]), "of the last round"),
    ]
    believed = ending.mean(run, "believed_accuracy")
    if believed is not None:
        figures.append(("on believed labels", percent(believed), averaged))
    f1 = run.total("filter.f1")
    if f1 is not None:
        words = f"precision {percent(run.total('filter.precision'))}, "
        words += f"recall {percent(run.total('filter.recall'))}"
        figures.append(("filter F1", f"{f1:.3f}", words))
    flagged, wrong, memorised = (run.total(k) for k in ("flagged", "wrong", "memorisation"))
    if flagged is not None:
        words = "" if wrong is None else f"{percent(wrong)} are wrong"
        figures.append(("labels flagged", percent(flagged), words))
    if memorised is not None:
        figures.append(("memorised", percent(memorised), "wrong labels that the model predicts"))
    seconds, up, down = spent(run)
    figures.append(("time", duration(seconds), pace(run, seconds)))
    figures.append(("traffic", size(up + down), f"{size(up)} up, {size(down)} down"))
    return figures


def _results(records: Sequence[RunRecord], ending: Ending) -> Html:
    believed = any(run.believes for run in records)
    columns = [
        "run",
        ending.name,
        "best",
        "last",
        *(["believed"] if believed else []),
        "filter F1",
        "flagged",
        "memorised",
        "time",
        "traffic",
    ]
    rows: dict[int, list[Content]] = {}
    drawn = zip(records, styles([each.method for each in records]), strict=True)
    for place, (run, style) in enumerate(drawn):
        f1 = run.total("filter.f1")
        seconds, up, down = spent(run)
        rows[place] = [
            [_swatch(style), shown(run.label, NAME)],
            percent(ending.mean(run)),
            *(percent(run.accuracy[end]) for end in ("best", "last")),
            *([percent(ending.mean(run, "believed_accuracy"))] if believed else []),
            "–" if f1 is None else f"{f1:.3f}",
            percent(run.total("flagged")),
            percent(run.total("memorisation")),
            duration(seconds),
            size(up + down),
        ]
    return by_run(columns, rows)


def _swatch(style: Style) -> Html:
    """The line by which a run is drawn, as variants of a method share their colour."""
    line = tag(
        "line",
        x1=0,
        x2=26,
        y1=4,
        y2=4,
        stroke_width=3,
        stroke_dasharray=style.dashes or None,
        style=f"stroke: var(--{style.colour})",
    )
    return tag("svg", line, class_="swatch", aria_hidden="true")


def _config(records: Sequence[RunRecord]) -> list[Html]:
    trees = [flat(record.config) for record in records]
    keys = sorted({name for tree in trees for name in tree})
    # Options of one method alone are in its config below.
    shared = [name for name in keys if name != "against" and all(name in tree for tree in trees)]
    different = [name for name in shared if len({_value(tree, name) for tree in trees}) > 1]
    result = []
    if len(records) > 1 and different:
        columns = ["setting", *(shown(run.label, NAME) for run in records)]
        rows = [[tag("code", name), *(_value(tree, name) for tree in trees)] for name in different]
        result += [
            said("Settings that all runs have and in which they differ."),
            table(columns, rows),
        ]
    for record in records:
        words = tag("summary", f"config.toml of {shown(record.label, NAME)}")
        opened = tag("details", words, tag("pre", record.toml), open=len(records) == 1)
        result.append(opened)
    return result


def _value(tree: Mapping[str, Any], name: str) -> str:
    return shown(str(tree[name]), NAME)


def _footer(run: RunRecord) -> str:
    environment, words = run.environment, []
    packages = environment.get("packages")
    if isinstance(packages, Mapping):
        words += [f"{name} {packages[name]}" for name in ("feddiv", "torch") if name in packages]
    words += [f"Python {environment['python']}"] if "python" in environment else []
    words += [f"started {environment['started']}"] if "started" in environment else []
    if isinstance(run.summary.get("model_hash"), str):
        words.append(f"model {run.summary['model_hash'][:12]}")
    if run.draw is not None:
        words.append(f"draw {run.draw.hash[:12]}")
    return " · ".join(shown(word, NAME) for word in words)

"""The page of a run, or of several side by side: what it says, and where its charts go."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from feddiv.core.dotted import flat
from feddiv.core.terminal import NAME, duration, shown
from feddiv.pages import Html, facts, page, section, table, tag
from feddiv.pages.page import shipped
from feddiv.reports.client_quality import by_client, clients_of, means
from feddiv.reports.content import content
from feddiv.reports.palette import COLOURS, SLATE, VERMILLION, styles
from feddiv.reports.record import RunRecord
from feddiv.reports.verdict import findings, percent

PACKAGE: Final = "feddiv.reports"
MARKS: Final = {"good": "✓", "bad": "!", "plain": "·"}
MEASURES: Final = {
    "test_accuracy": "test accuracy",
    "held_out_accuracy": "accuracy on samples that clients keep out, against their given labels",
}
Data = dict[str, Any]


def report_page(records: Sequence[RunRecord]) -> str:
    """The text of the page; the first run is the one that it is about."""
    main, data = records[0], content(records)
    parts = {
        "overview": ("Overview", _overview(records)),
        "accuracy": ("Accuracy", _accuracy(records)),
        "filter": ("Filter", _filter(data)),
        "clients": ("Clients", _clients(records, data)),
        "ranking": ("p(clean)", _ranking(data)),
        "labels": ("Labels", _labels(data)),
        "training": ("Training", _training(data)),
        "cost": ("Cost", _cost(records)),
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
    names = list(dict.fromkeys(shown(record.label, NAME) for record in records))
    others = f" and {len(names) - 2} more" if len(names) > 3 else f", {names[2]}" if len(
        names) == 3 else ""  # fmt: skip
    against = f" against {names[1]}{others}" if len(names) > 1 else ""
    return f"{names[0]}{against} on {source}"


def _subtitle(run: RunRecord) -> str:
    said = []
    if run.draw is not None and run.draw.parts:
        said.append(f"{len(run.draw.parts)} clients")
    if run.rounds_asked is not None:
        done = "" if run.ended else f"{run.spent[-1]:g} of " if run.rounds else "0 of "
        said.append(f"{done}{run.rounds_asked} rounds")
    said.append(f"seed {run.config.get('seed')}")
    wrong = run.total("wrong")
    if wrong is not None:
        said.append(f"{percent(wrong)} of the given labels wrong")
    return f"{', '.join(said)} · {shown(str(run.folder))}"


def _colours() -> str:
    named = {name: f"light-dark({light}, {dark})" for name, (light, dark) in COLOURS.items()}
    named |= {"right": f"light-dark({SLATE}, #71808f)", "wrong": f"light-dark({VERMILLION}, #ff8436)"}
    return ":root {" + "".join(f"--{name}:{value};" for name, value in named.items()) + "}"


def _overview(records: Sequence[RunRecord]) -> list[Html]:
    main = records[0]
    found = [
        tag("li", tag("i", MARKS[each.mark], aria_hidden="true"), tag("span", each.words),
            class_=each.mark)
        for each in findings(main, records)
    ]  # fmt: skip
    result = [tag("ul", found, class_="findings"), facts(_figures(main))]
    if len(records) > 1:
        result.append(tag("div", _results(records), class_="results"))
    return result


def _figures(run: RunRecord) -> list[tuple[str, ...]]:
    """The headline figures that a run has."""
    accuracy, when = run.accuracy, run.best_round
    measure = run.measure.replace("_", " ")
    figures: list[tuple[str, ...]] = [
        (f"{measure}, last ten", percent(accuracy["mean_last10"]), "mean of the last ten rounds"),
        ("best", percent(accuracy["best"]), "" if when is None else f"in round {when:g}"),
        ("last", percent(accuracy["last"]), "of the last round"),
    ]
    believed = run.total("mean_last10_believed_accuracy")
    if believed is not None:
        figures.append(("on believed labels", percent(believed), "mean of the last ten rounds"))
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
    seconds, up, down = _spent(run)
    figures.append(("time", duration(seconds), _per_round(run, seconds)))
    figures.append(("traffic", _size(up + down), f"{_size(up)} up, {_size(down)} down"))
    return figures


def _spent(run: RunRecord) -> tuple[float, float, float]:
    """Seconds, bytes up and bytes down."""
    rounds = sum(value or 0 for key in ("seconds", "evaluation_seconds") for value in run.column(key))
    seconds = run.total("seconds")
    up, down = (sum(value or 0 for value in run.column(key)) for key in ("bytes_up", "bytes_down"))
    return rounds if seconds is None else seconds, up, down


def _per_round(run: RunRecord, seconds: float) -> str:
    return f"{seconds / run.spent[-1]:.2g} s a round" if run.spent and run.spent[-1] else ""


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            break
        count /= 1000
    else:
        unit = "TB"
    return f"{count:.3g} {unit}"


def _results(records: Sequence[RunRecord]) -> Html:
    believed = any(run.believes for run in records)
    columns = ["run", "last ten", "best", "last", *(["believed"] if believed else []), "filter F1",
               "flagged", "memorised", "time", "traffic"]  # fmt: skip
    rows = []
    for run, style in zip(records, styles([each.method for each in records]), strict=True):
        swatch = tag("span", class_="swatch", style=f"background: var(--{style.colour})")
        f1 = run.total("filter.f1")
        seconds, up, down = _spent(run)
        rows.append([
            [swatch, shown(run.label, NAME)],
            *(percent(run.accuracy[end]) for end in ("mean_last10", "best", "last")),
            *([percent(run.total("mean_last10_believed_accuracy"))] if believed else []),
            "–" if f1 is None else f"{f1:.3f}",
            percent(run.total("flagged")), percent(run.total("memorisation")),
            duration(seconds), _size(up + down),
        ])  # fmt: skip
    return table(columns, rows, numbers=range(1, len(columns)))


def chart(name: str) -> Html:
    """Where a chart goes; without scripts it says so."""
    words = tag("noscript", tag("p", "The charts are drawn by the page's own script.", class_="empty"))
    return tag("div", words, class_="chart", data_chart=name)


def controls(*content: Any) -> Html:
    """What can be chosen above a chart."""
    return tag("div", content, class_="controls")


def choice(name: str) -> Html:
    """A row of buttons."""
    return tag("span", class_="buttons", data_choice=name)


def select(name: str, words: str) -> Html:
    """A list to choose from; hidden where there is only one."""
    return tag("label", words, data_list=name)


def key(colour: str, words: str) -> Html:
    """An entry of a legend."""
    return tag("span", tag("i", style=f"background: var(--{colour})"), words, class_="key")


def panel(title: str, note: str, *body: Any) -> Html:
    """A chart among others."""
    return tag("div", tag("h3", title), tag("p", note, class_="note"), body)


def _missing(words: str) -> Html:
    return tag("p", words, class_="empty")


def _said(words: str) -> Html:
    return tag("p", words, class_="note")


def _accuracy(records: Sequence[RunRecord]) -> list[Html]:
    words = f"{MEASURES.get(records[0].measure, 'accuracy').capitalize()}. A dot marks the best round"
    words += ", which is chosen on the same samples." if records[0].measure == "test_accuracy" else "."
    if any(run.believes for run in records):
        words += " Dotted: on those labels only that the method believes."
    return [_said(words), controls(choice("accuracy-x")), chart("accuracy")]


def _filter(data: Data) -> list[Html]:
    runs = data["runs"]
    if not any(run["scores"] for run in runs) and not _has(data, "filter.f1", "filter.accuracy"):
        return [_missing("No method here has a filter whose scores or decisions were noted.")]
    slider = tag("input", id="scores-round", type="range", min=0, max=0, aria_label="Round")
    frame = tag("label", slider, tag("output", id="scores-at"))
    counted = any("wrong" in frame for run in runs if run["scores"] for frame in run["scores"]["frames"])
    keys = [key("right", "right labels"), key("wrong", "wrong labels")]
    scores = panel(
        "What the filter sees",
        "How many labels have which score, and the filter's two components. A good filter has its "
        "components where right and wrong labels are.",
        controls(select("scores-run", "run "), frame, keys if counted else key("right", "given labels")),
        chart("scores"),
    )
    quality = panel(
        "How well it decides",
        "Its decisions on the clients of each round, against the true labels.",
        controls(choice("quality")),
        chart("quality") if _has(data, "filter.f1", "filter.accuracy", "filter.precision")
        else _missing("The true labels are not known."),
    )  # fmt: skip
    if not any(run["scores"] for run in runs):
        scores = panel("What the filter sees", "", _missing("No method here notes its scores."))
    return [tag("div", scores, quality, class_="panels")]


def _has(data: Data, *keys: str) -> bool:
    return any(name in run["series"] for run in data["runs"] for name in keys)


def _clients(records: Sequence[RunRecord], data: Data) -> list[Html]:
    if not any(run["clients"] for run in data["runs"]):
        return [_missing(_why_no_opinion(records))]
    words = "How well each client's labels are judged, clean clients apart from noisy ones. On clean "
    words += "clients accuracy is the share of labels that are rightly kept; precision and recall "
    words += "need wrong labels."
    rows = []
    for run in records:
        held, judged = clients_of(run), by_client(run)
        if not judged or all(each.wrong is None for each in held):
            continue
        clean, noisy = (means(held, judged, clean=kind) for kind in (True, False))
        cells = (clean["accuracy"], *(noisy[name] for name in ("accuracy", "precision", "recall")))
        rows.append([shown(run.label, NAME), *map(percent, cells)])
    columns = ["mean over clients", "clean: accuracy", "noisy: accuracy", "precision", "recall"]
    return [
        _said(words),
        controls(select("draw", "clients of "), choice("clients"), key("wrong", "true noise level")),
        chart("clients"),
        *([table(columns, rows, numbers=range(1, 5))] if rows else []),
    ]


def _why_no_opinion(records: Sequence[RunRecord]) -> str:
    if not any(run.ended for run in records):
        return "The run has not ended, and no visit has noted an opinion on single labels yet."
    if any(run.summary.get("assessed_clients") is not None for run in records):
        return "The clients' opinions on their labels stayed with them; only totals left."
    return "No method here has an opinion on single labels."


def _ranking(data: Data) -> list[Html]:
    if not any(run["ranking"] for run in data["runs"]):
        return [_missing("There is no opinion on every label: the run has not ended, its method has "
                         "none, or clients kept it.")]  # fmt: skip
    known = any(each is not None for draw in data["draws"] for each in draw["hardest"])
    words = "p(clean) of a client's labels, ranked by their scores. A good filter keeps right labels "
    words += "above one half and puts wrong ones (orange dots) below."
    first, second = ("The hardest clean client", "The hardest noisy client") if known else (
        "One client", "Another client")  # fmt: skip
    panels = [
        panel(first, "", controls(select("ranking-clean", "")), chart("ranking-clean")),
        panel(second, "", controls(select("ranking-noisy", "")), chart("ranking-noisy")),
    ]
    return [_said(words), tag("div", panels, class_="panels")]


def _labels(data: Data) -> list[Html]:
    if not any(run["labels"] for run in data["runs"]):
        return [_missing("No visit has noted labels after filter and sampler, or the true labels are "
                         "not known.")]  # fmt: skip
    words = "True classes down, labels across: as they were given, after filter and relabelling, and "
    words += "as the last epoch trained on them. Blue is right, orange is wrong."
    where = controls(select("labels-run", "run "), tag("label", "client ", data_list="labels-client"))
    return [_said(words), where, tag("div", class_="labels", data_chart="labels")]


def _training(data: Data) -> list[Html]:
    stability = panel(
        "Stability against accuracy",
        "How far clients' models move away in a round; left and up is good. Large: the last round.",
        chart("stability"),
    )
    divided = any("clean" in run["series"] for run in data["runs"])
    sets = panel(
        "Sizes of the sets",
        "What becomes of the labels of each round's clients.",
        controls(select("sets-run", "run "), key("blue", "clean"), key("orange", "relabelled"),
                 key("soft", "left out"), key("ink", "trained on")),
        chart("sets") if divided else _missing("No method here divides its labels."),
    )  # fmt: skip
    memorised = _has(data, "memorisation") or any(
        run["end"]["memorisation"] is not None for run in data["runs"]
    )
    memorisation = panel(
        "Memorisation",
        "Wrong labels that the model predicts: learnt by heart. Dots: all clients at the end.",
        chart("memorisation") if memorised else _missing("The true labels are not known."),
    )
    ended = any(run["end"]["per_class"] for run in data["runs"])
    classes = panel(
        "Accuracy by class",
        "Of the last round.",
        chart("classes") if ended else _missing("No run here has ended."),
    )
    return [tag("div", stability, sets, memorisation, classes, class_="panels")]


def _cost(records: Sequence[RunRecord]) -> list[Html]:
    rows = []
    for run in records:
        seconds, up, down = _spent(run)
        test = sum(value or 0 for value in run.column("evaluation_seconds"))
        share = percent(test / seconds) if seconds else "–"
        rows.append([shown(run.label, NAME), duration(seconds), _per_round(run, seconds), share,
                     _size(up), _size(down)])  # fmt: skip
    columns = ["run", "time", "pace", "of it measuring", "sent by clients", "sent to clients"]
    panels = [
        panel("Time", "Training of each round.", chart("seconds")),
        panel("Traffic", "What crossed between server and clients.", chart("traffic")),
    ]
    return [tag("div", panels, class_="panels"), table(columns, rows, numbers=range(1, 6))]


def _config(records: Sequence[RunRecord]) -> list[Html]:
    trees = [flat(record.config) for record in records]
    keys = sorted({name for tree in trees for name in tree})
    different = [name for name in keys if len({_value(tree, name) for tree in trees}) > 1]
    result = []
    if len(records) > 1 and different:
        columns = ["setting", *(shown(run.label, NAME) for run in records)]
        rows = [[tag("code", name), *(_value(tree, name) for tree in trees)] for name in different]
        result += [_said("Settings in which the runs differ."), table(columns, rows)]
    for record in records:
        words = tag("summary", f"config.toml of {shown(record.label, NAME)}")
        opened = tag("details", words, tag("pre", record.toml), open=len(records) == 1)
        result.append(opened)
    return result


def _value(tree: Mapping[str, Any], name: str) -> str:
    return shown(str(tree[name]), NAME) if name in tree else "–"


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

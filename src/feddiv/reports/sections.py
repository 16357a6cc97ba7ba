"""The sections of a report that hold charts: what each says, and where its charts go."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from feddiv.core.terminal import NAME, duration, shown
from feddiv.pages import Html, table, tag
from feddiv.pages.markup import Content
from feddiv.reports.client_quality import by_client, clients_of, means
from feddiv.reports.record import RunRecord
from feddiv.reports.spending import pace, size, spent
from feddiv.reports.verdict import percent

MEASURES: Final = {
    "test_accuracy": "test accuracy",
    "held_out_accuracy": "accuracy on samples that clients keep out, against their given labels",
}
MANY: Final = 150  # rounds, above which the page's script draws running means
Data = dict[str, Any]


def chart(name: str) -> Html:
    """Where a chart goes; without scripts it says so."""
    words = tag(
        "noscript", tag("p", "The charts are drawn by the page's own script.", class_="empty")
    )
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


def by_run(columns: Sequence[str], rows: Mapping[int, Sequence[Content]]) -> Html:
    """A table with a row for each run, by its place on the page: it goes with the run's charts."""
    body = table(columns, rows.values(), numbers=range(1, len(columns)))
    return tag("div", body, data_rows=" ".join(map(str, rows)))


def key(colour: str, words: str) -> Html:
    """An entry of a legend."""
    return tag("span", tag("i", style=f"background: var(--{colour})"), words, class_="key")


def panel(title: str, note: str, *body: Any) -> Html:
    """A chart among others."""
    return tag("div", tag("h3", title), tag("p", note, class_="note"), body)


def missing(words: str) -> Html:
    """What is said where there is nothing to draw."""
    return tag("p", words, class_="empty")


def said(words: str) -> Html:
    """A line or two above a chart."""
    return tag("p", words, class_="note")


def accuracy_section(records: Sequence[RunRecord]) -> list[Html]:
    """Accuracy by round."""
    measure = records[0].measure
    words = f"{MEASURES.get(measure, 'accuracy').capitalize()}. A dot marks the best round"
    words += ", which is chosen on the same samples." if measure == "test_accuracy" else "."
    if any(len(run.rounds) > MANY for run in records):
        words += " Of so many rounds the thick lines are running means, here and below."
    if any(run.believes for run in records):
        words += " Dotted: on those labels only that the method believes."
    return [said(words), controls(choice("accuracy-x")), chart("accuracy")]


def filter_section(data: Data) -> list[Html]:
    """Scores and the filter, and how well it decides, by round."""
    runs = data["runs"]
    if not any(run["scores"] for run in runs) and not _has(data, "filter.f1", "filter.accuracy"):
        return [missing("No method here has a filter whose scores or decisions were noted.")]
    slider = tag("input", id="scores-round", type="range", min=0, max=0, aria_label="Round")
    frame = tag("label", slider, tag("output", id="scores-at"))
    counted = any(
        "wrong" in frame for run in runs if run["scores"] for frame in run["scores"]["frames"]
    )
    keys = (
        [key("right", "right labels"), key("wrong", "wrong labels")]
        if counted
        else [key("right", "given labels")]
    )
    scores = panel(
        "What the filter sees",
        "How many labels have which score, and the filter's two components. A good filter has its "
        "components where right and wrong labels are.",
        controls(select("scores-run", "run "), frame, keys, key("blue", "lines: the filter")),
        chart("scores"),
    )
    quality = panel(
        "How well it decides",
        "Its decisions on the clients of each round, against the true labels.",
        controls(choice("quality")),
        chart("quality")
        if _has(data, "filter.f1", "filter.accuracy", "filter.precision")
        else missing("The true labels are not known."),
    )
    if not any(run["scores"] for run in runs):
        scores = panel("What the filter sees", "", missing("No method here notes its scores."))
    return [tag("div", scores, quality, class_="panels")]


def _has(data: Data, *keys: str) -> bool:
    return any(name in run["series"] for run in data["runs"] for name in keys)


def clients_section(records: Sequence[RunRecord], data: Data) -> list[Html]:
    """How well each client's labels are judged (Figures 3 and 6)."""
    if not any(run["clients"] for run in data["runs"]):
        return [missing(_why_no_opinion(records))]
    words = (
        "How well each client's labels are judged, clean clients apart from noisy ones. On clean "
    )
    words += "clients accuracy is the share of labels that are rightly kept; precision and recall "
    words += "need wrong labels."
    rows: dict[int, list[Content]] = {}
    for place, run in enumerate(records):
        held, judged = clients_of(run), by_client(run)
        if not judged or all(each.wrong is None for each in held):
            continue
        clean, noisy = (means(held, judged, clean=kind) for kind in (True, False))
        cells = (clean["accuracy"], *(noisy[name] for name in ("accuracy", "precision", "recall")))
        rows[place] = [shown(run.label, NAME), *map(percent, cells)]
    level = key("wrong", "true noise level") if rows else None
    columns = ["mean over clients", "clean: accuracy", "noisy: accuracy", "precision", "recall"]
    return [
        said(words),
        controls(select("draw", "clients of "), choice("clients"), level),
        chart("clients"),
        *([by_run(columns, rows)] if rows else []),
    ]


def _why_no_opinion(records: Sequence[RunRecord]) -> str:
    if not any(run.ended for run in records):
        return "The run has not ended, and no visit has noted an opinion on single labels yet."
    if any(run.summary.get("assessed_clients") is not None for run in records):
        return "The clients' opinions on their labels stayed with them; only totals left."
    return "No method here has an opinion on single labels."


def ranking_section(data: Data) -> list[Html]:
    """p(clean) by rank on two clients (Figure 7)."""
    if not any(run["ranking"] for run in data["runs"]):
        words = (
            "There is no opinion on every label: the run has not ended, its method has none, or "
        )
        return [missing(f"{words}clients kept it.")]
    known = any(each is not None for draw in data["draws"] for each in draw["hardest"])
    words = (
        "p(clean) of a client's labels, ranked by their scores. A good filter keeps right labels "
    )
    words += "above one half and puts wrong ones (orange dots) below."
    first, second = (
        ("The hardest clean client", "The hardest noisy client")
        if known
        else ("One client", "Another client")
    )
    panels = [
        panel(first, "", controls(select("ranking-clean", "")), chart("ranking-clean")),
        panel(second, "", controls(select("ranking-noisy", "")), chart("ranking-noisy")),
    ]
    return [said(words), tag("div", panels, class_="panels")]


def labels_section(data: Data) -> list[Html]:
    """Confusion matrices before and after (Figure 8)."""
    if not any(run["labels"] for run in data["runs"]):
        words = "No visit has noted labels after filter and sampler, or the truth is not known."
        return [missing(words)]
    words = (
        "True classes down, labels across: as they were given, after filter and relabelling, and "
    )
    words += "as the last epoch trained on them. Blue is right, orange is wrong."
    where = controls(
        select("labels-run", "run "), tag("label", "client ", data_list="labels-client")
    )
    return [said(words), where, tag("div", class_="labels", data_chart="labels")]


def training_section(data: Data) -> list[Html]:
    """Stability (Figure 5), sizes of sets, memorisation, classes."""
    stability = panel(
        "Stability against accuracy",
        "How far clients' models move away in a round; left and up is good. Large: the last round.",
        chart("stability"),
    )
    divided = any("clean" in run["series"] for run in data["runs"])
    sets = panel(
        "Sizes of the sets",
        "What becomes of the labels of each round's clients.",
        controls(
            select("sets-run", "run "),
            key("blue", "clean"),
            key("orange", "relabelled"),
            key("soft", "left out"),
            key("ink", "trained on"),
        ),
        chart("sets") if divided else missing("No method here divides its labels."),
    )
    memorised = _has(data, "memorisation") or any(
        run["end"]["memorisation"] is not None for run in data["runs"]
    )
    memorisation = panel(
        "Memorisation",
        "Wrong labels that the model predicts: learnt by heart. Dots: all clients at the end.",
        chart("memorisation") if memorised else missing("The true labels are not known."),
    )
    ended = any(run["end"]["per_class"] for run in data["runs"])
    classes = panel(
        "Accuracy by class",
        "Of the last round.",
        chart("classes") if ended else missing("No run here has ended."),
    )
    return [tag("div", stability, sets, memorisation, classes, class_="panels")]


def cost_section(records: Sequence[RunRecord]) -> list[Html]:
    """Time and traffic."""
    rows: dict[int, list[Content]] = {}
    for place, run in enumerate(records):
        seconds, up, down = spent(run)
        test = sum(value or 0 for value in run.column("evaluation_seconds"))
        share = percent(test / seconds) if seconds else "–"
        rows[place] = [
            shown(run.label, NAME),
            duration(seconds),
            pace(run, seconds),
            share,
            size(up),
            size(down),
        ]
    columns = ["run", "time", "pace", "for measuring", "sent by clients", "sent to clients"]
    panels = [
        panel("Time", "Training of each round.", chart("seconds")),
        panel("Traffic", "What crossed between server and clients.", chart("traffic")),
    ]
    return [tag("div", panels, class_="panels"), by_run(columns, rows)]

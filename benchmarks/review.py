"""What an expert's hours are worth: the next run by the number of labels that were reviewed.

    .venv/bin/python benchmarks/review.py digits                 run what is missing, print a table
    .venv/bin/python benchmarks/review.py features --seeds 20
    .venv/bin/python benchmarks/review.py digits features --table --figure docs/images/reviewed.png

True labels play the expert, who confirms or corrects the labels that a first run finds worst over
all sites, or as many by chance. The next run has the same seed and draw, and `data.corrections`.
Finished runs are lines of RESULTS/review.jsonl: a run that is there is not repeated. Accuracy is
the mean of the last ten rounds on the test set. F1 is that of the next run's filter on the labels
as the expert left them; "found" is the share of the labels that were wrong at first which the
expert has corrected or the filter flags, and "precision" how much of that was wrong. CIFAR-10 is
read from FEDDIV_DATA, its features from FEDDIV_CACHE.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

import feddiv
from feddiv.config.experiment import Experiment
from feddiv.config.reading import load_experiment
from feddiv.core.randomness import Streams
from feddiv.data import Draw
from feddiv.data.corrections import Decision, DecisionKind, append
from feddiv.learning.quality import Confusion
from feddiv.tables.rows import fingerprint

RESULTS = Path(__file__).parent / "results"
FILE = "review.jsonl"
TIME = "2026-01-01T00:00:00Z"  # the same bytes every time
WORST, CHANCE = "worst first", "by chance"


@dataclass(frozen=True)
class Study:
    """A setting, how many labels are reviewed, and the seeds that are reported."""

    arguments: tuple[str, ...]
    reviewed: tuple[int, ...]
    seeds: tuple[int, ...]


STUDIES = {
    "digits": Study(("quickstart", "against=[]"), (50, 100, 200, 400), (20, 21, 22)),
    "features": Study(
        ("cifar10-features-iid-0.8-0.5", "against=[]", "rounds=200"), (1000, 5000), (20,)
    ),
}


@dataclass(frozen=True)
class Job:
    """One run: the first one has no order, and nothing reviewed."""

    setting: str
    seed: int
    order: str
    reviewed: int

    @property
    def arguments(self) -> list[str]:
        """What follows `feddiv run`, but for the corrections."""
        return [*STUDIES[self.setting].arguments, f"seed={self.seed}"]

    @property
    def experiment(self) -> Experiment:
        """What these come to today."""
        preset, *settings = self.arguments
        return load_experiment(preset, settings)

    def made(self, row: dict[str, Any]) -> bool:
        """Whether a row was made with the options of today; the first rows have arguments alone."""
        if row["arguments"] != self.arguments:
            return False
        options = row.get("options")
        return options is None or (
            fingerprint(load_experiment(options)) == fingerprint(self.experiment)
        )


def jobs(setting: str, seeds: Sequence[int]) -> Iterator[Job]:
    """All runs of a setting, the first one of a seed before those that follow from it."""
    for seed in seeds:
        yield Job(setting, seed, "", 0)
        for reviewed in STUDIES[setting].reviewed:
            for order in (WORST, CHANCE):
                yield Job(setting, seed, order, reviewed)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing, then print a table for each setting."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("settings", nargs="+", choices=STUDIES)
    parser.add_argument("--seeds", nargs="+", type=int, default=None)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--workers", type=int, default=None)
    parser.add_argument("--table", action="store_true", help="run nothing")
    parser.add_argument("--figure", type=Path, default=None, metavar="FILE.png")
    given = parser.parse_args(arguments)
    file = given.results / FILE
    for setting in () if given.table else given.settings:
        for seed in given.seeds or STUDIES[setting].seeds:
            _run_missing(setting, seed, file, given.workers)
    rows = finished(file)
    for setting in given.settings:
        print(table(setting, rows, given.seeds or STUDIES[setting].seeds), flush=True)
    if given.figure is not None:
        reported = {
            job: row
            for job, row in rows.items()
            if job.seed in (given.seeds or STUDIES[job.setting].seeds)
        }
        _draw(given.settings, reported, given.figure)


def finished(file: Path) -> dict[Job, dict[str, Any]]:
    """Runs that were made with the settings of today."""
    rows = {}
    for line in file.read_text().splitlines() if file.exists() else ():
        row = json.loads(line)
        job = Job(*(row[name] for name in Job.__dataclass_fields__))
        if job.setting in STUDIES and job.made(row):
            rows[job] = row
    return rows


def _run_missing(setting: str, seed: int, file: Path, workers: int | None) -> None:
    done = finished(file)
    missing = [job for job in jobs(setting, [seed]) if job not in done]
    if not missing:
        return
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        first = _run(missing[0].arguments, folder / "first", workers)  # its list is needed anyway
        for job in missing:
            began = time.monotonic()
            run = first
            if job.reviewed:
                decisions = folder / f"{job.order}-{job.reviewed}.csv"
                append(decisions, reviewed(first, job))
                more = [f"data.corrections={decisions}"]
                run = _run([*job.arguments, *more], folder / decisions.stem, workers)
            row = {**asdict(job), "arguments": job.arguments, **measured(run)}
            row["options"] = job.experiment.model_dump(mode="json", exclude_none=True)
            row["seconds"] = round(time.monotonic() - began, 1)
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("a") as results:
                results.write(json.dumps(row) + "\n")
            print(f"{job.setting} seed {seed}: {job.order or 'first run'} {job.reviewed}: "
                  f"{row['accuracy']:.4f}, F1 {row['f1']:.4f}", flush=True)  # fmt: skip


def _run(arguments: Sequence[str], out: Path, workers: int | None) -> "feddiv.Run":
    preset, *settings = arguments
    return feddiv.run(preset, settings, out=out, workers=workers)


def reviewed(run: "feddiv.Run", job: Job) -> list[Decision]:
    """What the truth says of so many labels of all sites."""
    draw = Draw.load(run.folder / "draw.npz")
    assert draw.truth is not None
    audits = feddiv.audit(run)
    classes = audits[0].classes
    names = [audit.name(number) for audit in audits for number in range(len(audit))]
    rows = np.concatenate(draw.parts)
    if job.order == WORST:
        judged = [audit.judged for audit in audits]
        quality = np.concatenate([each.quality for each in judged if each is not None])
        order = np.argsort(quality, kind="stable")
    else:
        order = Streams(job.seed).numpy("reviewed by chance").permutation(len(rows))
    decisions = []
    for place in order[: job.reviewed].tolist():
        given, truth = (classes[int(labels[rows[place]])] for labels in (draw.given, draw.truth))
        kind = DecisionKind.CONFIRM if given == truth else DecisionKind.CORRECT
        decisions.append(Decision(names[place], given, kind, truth, "truth", TIME))
    return decisions


def measured(run: "feddiv.Run") -> dict[str, Any]:
    """Accuracy, the filter's F1, and how many of the labels wrong at first were found in all."""
    draw, summary = Draw.load(run.folder / "draw.npz"), run.summary
    columns = run.assessment
    samples, truth = columns["sample"], columns["true_label"]
    before = draw.given if draw.uncorrected is None else draw.uncorrected
    wrong, corrected = before[samples] != truth, draw.given[samples] != before[samples]
    together = Confusion.of(corrected | (columns["label_quality"] < 0.5), wrong).measures()
    return {
        "accuracy": summary["mean_last10_test_accuracy"],
        "last_accuracy": summary["last_test_accuracy"],
        "f1": summary["filter"]["f1"],
        "found": together["recall"],
        "precision": together["precision"],
        "corrected": int(corrected.sum()),
        "wrong_before": float(wrong.mean()),
        "wrong_after": float((draw.given[samples] != truth).mean()),
        "model_hash": summary["model_hash"],
    }


def table(setting: str, rows: dict[Job, dict[str, Any]], seeds: Sequence[int]) -> str:
    """A row for each number of labels, means over seeds; both orders side by side."""
    lines = [
        "| labels reviewed | order | corrected | wrong labels left | accuracy | filter F1 | found "
        "| precision |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for reviewed_, order in _points(setting):
        found = [
            rows[job] for seed in seeds if (job := Job(setting, seed, order, reviewed_)) in rows
        ]
        if not found:
            continue

        def of(key: str, found: Sequence[dict[str, Any]] = found) -> float:
            return mean(float(row[key]) for row in found)

        cells = (
            f"{reviewed_:,}",
            order or "-",
            f"{of('corrected'):,.0f}",
            f"{of('wrong_after'):.1%}",
            f"{of('accuracy'):.2%}",
            f"{of('f1'):.3f}",
            f"{of('found'):.1%}",
            f"{of('precision'):.1%}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _points(setting: str) -> list[tuple[int, str]]:
    return [(job.reviewed, job.order) for job in jobs(setting, [0])]


def _draw(settings: Sequence[str], rows: dict[Job, dict[str, Any]], file: Path) -> None:
    """Accuracy above, wrong labels left below; one column for each setting."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from feddiv.reports.palette import COLOURS, INK, SLATE

    titles = {"digits": "Digits", "features": "CIFAR-10, frozen features"}
    measures = {"accuracy": "accuracy of the next run", "wrong_after": "wrong labels left"}
    looks = {WORST: (COLOURS["blue"][0], "-"), CHANCE: (SLATE, "--")}
    figure = Figure(figsize=(4.6 * len(settings), 6.0), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(measures), len(settings), squeeze=False)
    for column, setting in enumerate(settings):
        for axes, (key, words) in zip(panels[:, column], measures.items(), strict=True):
            for order, (colour, line) in looks.items():
                at = [(0, ""), *((n, order) for n in STUDIES[setting].reviewed)]
                values = [
                    [row[key] for job, row in rows.items()
                     if (job.setting, job.reviewed, job.order) == (setting, *point)]
                    for point in at
                ]  # fmt: skip
                shown = [(n, each) for (n, _), each in zip(at, values, strict=True) if each]
                axes.plot([n for n, _ in shown], [100 * mean(each) for _, each in shown], line,
                          marker="o", color=colour, label=order)  # fmt: skip
                for n, each in shown:
                    axes.plot([n] * len(each), [100 * value for value in each], ".", color=colour,
                              alpha=0.35)  # fmt: skip
            axes.set_ylabel(f"{words} (%)", color=INK)
            axes.grid(alpha=0.3)
            axes.spines[["top", "right"]].set_visible(False)
        panels[0, column].set_title(titles[setting], loc="left", fontweight="bold", color=INK)
        panels[-1, column].set_xlabel("labels reviewed", color=INK)
    panels[0, 0].legend(frameon=False)
    figure.savefig(file, dpi=130, facecolor="white")


if __name__ == "__main__":
    main()

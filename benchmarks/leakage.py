"""What a curious server learns of one client from what it receives, by private filter.

    .venv/bin/python benchmarks/leakage.py [--jobs 2]      run what is missing, print the table
    .venv/bin/python benchmarks/leakage.py --table         print the table only
    … --settings digits-noniid --options none --seeds 0 --trials 20 --results FOLDER

In a real run everything is noted that clients send beside their weights, as it is sent. From that
the server guesses of each client its share of wrong labels and how many labels it has of each
class (`curious_server.py`). Then a game is played: a client holds a sample, or another one in its
place, and the server guesses which from one more reply. What weights tell is left out here.
Finished runs are lines of RESULTS/leakage.jsonl: a run that is there is not repeated.
"""

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from curious_server import Game, Seen, class_balance_errors, noise_rate_errors

from feddiv.config.reading import load_experiment
from feddiv.core.randomness import Streams
from feddiv.federation.federation import Absence
from feddiv.federation.in_process import InProcess
from feddiv.learning.average import copied
from feddiv.methods.contract import Exchange, Message, Visit
from feddiv.runs.prepare import Prepared
from feddiv.runs.run_folder import RunFolder
from feddiv.runs.start_and_resume import Watcher, run_experiment

RESULTS = Path(__file__).parent / "results"
FILE = "leakage.jsonl"
SETTINGS = ("quickstart",)  # digits-noniid: clients with few classes each
SEEDS = (20, 21, 22)
TRIALS = 40  # of the game in each run: half of its time, which is about 40 CPU seconds
OPTIONS: dict[str, list[str]] = {
    "none": [],
    "none, `paper`": ["method.variant=paper"],
    "`sum_only`": ["privacy.filter=sum_only"],
    "`dp`, ε = 8": ["privacy.filter=dp", "privacy.epsilon=8"],
    "`dp`, ε = 1": ["privacy.filter=dp", "privacy.epsilon=1"],
}


class Listening(InProcess):
    """The real federation; the server writes down what each client sends beside its weights."""

    def begin(self) -> "Listening":
        """An empty note-book."""
        self.notes: dict[int, Seen] = {}
        self.last: Message | None = None  # the last message to clients that shall train
        return self

    def visits(self, exchange: Exchange, rng: Streams) -> Iterator[Visit[Any] | Absence]:
        """Visits as they are made; replies are noted as they come."""
        kinds = self.workspace.method.kinds(self.facts)
        kind = kinds.get(exchange.message.kind)  # None: a step of a secure sum
        if exchange.message.kind == "train":
            self.last = replace(exchange.message, weights=copied(exchange.message.weights))
        for visit in super().visits(exchange, rng):
            client = visit.reply.client
            if kind is not None:
                sent = exchange.to(client)
                seen = self.notes.get(client, Seen(visit.reply.samples))
                self.notes[client] = seen.added(visit.reply.payload, kind, sent)
            yield visit


@dataclass(frozen=True)
class Job:
    """One run."""

    setting: str
    option: str
    seed: int

    @property
    def arguments(self) -> list[str]:
        """What follows `feddiv run`."""
        return [self.setting, "against=[]", *OPTIONS[self.option], f"seed={self.seed}"]

    def run(self, trials: int) -> dict[str, Any]:
        """Run it, look at what was sent, play the game."""
        preset, *overrides = self.arguments
        experiment = load_experiment(preset, overrides)
        made: list[tuple[Prepared, Listening]] = []

        def carrier(prepared: Prepared, folder: RunFolder) -> Listening:
            nets = folder.path / "checkpoint" / "nets"
            made.append((prepared, Listening(prepared.workspace, nets).begin()))
            return made[-1][1]

        with tempfile.TemporaryDirectory() as scratch:
            folder = RunFolder(Path(scratch) / "run")
            run = run_experiment(experiment, folder, Watcher(), carrier=carrier)
        (prepared, federation), mixture = made[0], run.rounds[-1]["mixture"]
        assert federation.last is not None
        draw, notes = prepared.draw, federation.notes
        assert draw.truth is not None
        wrong = draw.given != draw.truth
        rates = {client: float(wrong[draw.parts[client]].mean()) for client in notes}
        classes = len(prepared.dataset.classes)
        balances = {
            client: np.bincount(draw.given[draw.parts[client]], minlength=classes)
            for client in notes
        }
        game = Game(prepared, federation.last, notes, Streams(self.seed))
        return {
            **vars(self),
            "arguments": self.arguments,
            "date": datetime.now(UTC).date().isoformat(),
            "accuracy": run.summary["mean_last10_test_accuracy"],
            "f1": run.summary["filter"]["f1"],
            "noise_rate": noise_rate_errors(notes, np.array(mixture), rates),
            "class_balance": class_balance_errors(notes, balances),
            "membership": {"trials": trials, **game.played(trials)},
        }


def finished(folder: Path) -> dict[Job, dict[str, Any]]:
    """Runs in a folder that were made with the settings of today."""
    file, rows = folder / FILE, {}
    for line in file.read_text().splitlines() if file.exists() else ():
        row = json.loads(line)
        job = Job(row["setting"], row["option"], row["seed"])
        if job.option in OPTIONS and row["arguments"] == job.arguments:
            rows[job] = row
    return rows


def table(rows: dict[Job, dict[str, Any]], settings: Sequence[str], seeds: Sequence[int]) -> str:
    """Markdown: a line for each setting and option, means over the seeds."""
    text = [
        "| setting | private filter | accuracy | filter F1 | share of wrong labels, off by "
        "| class balance, off by | membership: knows the rest | membership: knows the sample |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for setting in settings:
        for option in OPTIONS:
            made = [rows[job] for s in seeds if (job := Job(setting, option, s)) in rows]
            if made:
                text.append(f"| {' | '.join(_cells(setting, option, made))} |")
    return "\n".join(text)


def _cells(setting: str, option: str, rows: Sequence[dict[str, Any]]) -> list[str]:
    def average(*keys: str) -> float:
        return mean(_at(row, keys) for row in rows)

    return [
        setting,
        option,
        f"{average('accuracy'):.3f}",
        f"{average('f1'):.2f}",
        _best(rows, "noise_rate"),
        _best(rows, "class_balance"),
        f"{average('membership', 'knows the rest'):.2f}",
        f"{average('membership', 'knows the sample'):.2f}",
    ]


def _best(rows: Sequence[dict[str, Any]], key: str) -> str:
    """The smallest error, what it was read from, and that of a blind guess."""
    sources = [name for name in rows[0][key] if name != "blind"]
    means = {name: mean(row[key][name] for row in rows) for name in (*sources, "blind")}
    blind = f"blind {means['blind']:.3f}"
    if not sources:
        return f"nothing is sent ({blind})"
    best = min(sources, key=means.__getitem__)
    return f"{means[best]:.3f} by {best} ({blind})"


def _at(row: dict[str, Any], keys: Sequence[str]) -> float:
    value: Any = row
    for key in keys:
        value = value[key]
    return float(value)


def main() -> None:
    """Run what is missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time (default 1)")
    parser.add_argument("--settings", nargs="+", default=SETTINGS, help="these presets only")
    parser.add_argument("--options", nargs="+", choices=OPTIONS, help="these filters only")
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS, help="these seeds instead")
    parser.add_argument("--trials", type=int, default=TRIALS, help=f"default {TRIALS}")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--table", action="store_true", help="run nothing")
    options = parser.parse_args()
    rows = finished(options.results)
    if not options.table:
        os.environ["OMP_NUM_THREADS"] = "1"
        options.results.mkdir(parents=True, exist_ok=True)
        todo = [
            job
            for seed in options.seeds
            for setting in options.settings
            for option in options.options or OPTIONS
            if (job := Job(setting, option, seed)) not in rows
        ]
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(options.jobs, context, max_tasks_per_child=1) as pool:
            runs = {pool.submit(job.run, options.trials): job for job in todo}
            for number, run in enumerate(as_completed(runs), 1):
                rows[runs[run]] = row = run.result()
                with (options.results / FILE).open("a") as results:
                    results.write(json.dumps(row, ensure_ascii=False) + "\n")
                print(f"{number}/{len(todo)} {json.dumps(row)}", file=sys.stderr, flush=True)
    print(table(rows, options.settings, options.seeds))


if __name__ == "__main__":
    main()

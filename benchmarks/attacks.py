"""Real runs in which some clients lie, and the tables that the docs show.

    .venv/bin/python benchmarks/attacks.py digits --jobs 2       run what is missing, print tables
    .venv/bin/python benchmarks/attacks.py cifar10 --table       print tables only
    .venv/bin/python benchmarks/attacks.py features --jobs 2     frozen features, 100 clients
    … --only "all clean" "all noisy" --methods plus --seeds 0    less of it
    … --results FOLDER                                           keep results elsewhere

Liars do their work honestly and then say something else (`liars.py`): nothing of the run is
replaced but what they say. Who lies is drawn from the seed and the same for all methods. Finished
runs are lines of RESULTS/attacks.jsonl: a run that is there is not repeated. Accuracy is the mean
of the last ten rounds on the test set. F1 is that of the final filter on the labels of honest
clients only, as what liars think of their own labels is of no interest; without an attack it is
given for the same clients. CIFAR-10 is read from FEDDIV_DATA. The study `features` encodes it
once, into the user's cache or FEDDIV_CACHE. `attack_studies.py` says what is run.
"""

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from attack_studies import (
    DEFENCES,
    FILTER,
    FILTERING,
    LARGEST,
    METHODS,
    OFF,
    SETTINGS,
    SHARES,
    STUDIES,
    TELLS,
    Study,
)
from liars import LyingInProcess, chosen_liars
from lies import ATTACKS, NONE, Attack

from feddiv.config.reading import load_experiment
from feddiv.core.errors import in_one_line
from feddiv.federation.federation import Federation
from feddiv.learning.quality import filter_quality
from feddiv.runs.prepare import Prepared
from feddiv.runs.run import Run
from feddiv.runs.run_folder import RunFolder
from feddiv.runs.start_and_resume import Watcher, run_experiment

RESULTS = Path(__file__).parent / "results"
FILE = "attacks.jsonl"


@dataclass(frozen=True)
class Job:
    """One run."""

    setting: str
    method: str
    attack: str
    share: float  # of the clients that lie; 0 without an attack
    defence: str
    seed: int

    @property
    def arguments(self) -> list[str]:
        """What follows `feddiv run`, were all clients honest."""
        defence = [
            option.format(largest=LARGEST[self.setting])
            for option in DEFENCES[self.defence]
            if TELLS[self.method] or not option.startswith(FILTERING)
        ]
        seed = f"seed={self.seed}"
        return [*SETTINGS[self.setting], *METHODS[self.method], *defence, seed]

    def run(self) -> dict[str, Any]:
        """Run it in a folder that is thrown away, and keep its numbers."""
        preset, *overrides = self.arguments
        experiment = load_experiment(preset, overrides)
        clients = experiment.clients.count
        assert clients is not None
        liars = chosen_liars(clients, self.share, self.seed)

        def carrier(prepared: Prepared, folder: RunFolder) -> Federation:
            federation = LyingInProcess(prepared.workspace, folder.path / "checkpoint" / "nets")
            federation.lie(ATTACKS[self.attack], liars)
            return federation

        run, ended = None, ""
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / "run"
            try:
                run = run_experiment(experiment, RunFolder(path), Watcher(), carrier=carrier)
            except Exception as problem:  # whatever a liar can end a run with is a result
                ended = in_one_line(problem)
            told = _lines(path / "clients.jsonl")
            rounds = _lines(path / "rounds.jsonl")
        lost = [line for line in told if "refused" in line or "missing" in line]
        refused = [line["client"] in liars for line in lost]
        return {
            **vars(self),
            "arguments": self.arguments,
            "liars": sorted(liars),
            "date": datetime.now(UTC).date().isoformat(),
            "accuracy": None if run is None else run.summary["mean_last10_test_accuracy"],
            "f1": {} if run is None else _honest_f1(run, clients, self.seed),
            "refused": {"of liars": sum(refused), "of others": len(refused) - sum(refused)},
            "replies": sum("introduced" not in line for line in told),
            "rounds": len(rounds),
            "ended": ended,
            "seconds": None if run is None else run.summary["seconds"],
        }


def _lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def _honest_f1(run: Run, clients: int, seed: int) -> dict[str, float | None]:
    """F1 of the final filter by share of liars, on labels of those who are honest then."""
    arrays = run.assessment
    if "label_quality" not in arrays:
        return {}
    wrong = arrays["given_label"] != arrays["true_label"]
    result = {}
    for share in (0.0, *SHARES):
        honest = ~np.isin(arrays["client"], list(chosen_liars(clients, share, seed)))
        quality = filter_quality(arrays["label_quality"][honest], wrong[honest])
        result[f"{share:g}"] = quality["f1"]
    return result


@dataclass
class Results:
    """Finished runs; a later line of the same run takes the place of an earlier one."""

    file: Path
    rows: dict[Job, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path) -> "Results":
        """Those in a folder that were made with the settings of today."""
        results, names = cls(folder / FILE), tuple(Job.__dataclass_fields__)
        for row in _lines(results.file):
            job = Job(**{name: row[name] for name in names})
            if job.defence in DEFENCES and row["arguments"] == job.arguments:
                results.rows[job] = row
        return results

    def add(self, row: dict[str, Any]) -> None:
        """Keep one more, on the disk too."""
        with self.file.open("a") as results:
            results.write(json.dumps(row, ensure_ascii=False) + "\n")


def jobs(study: Study, methods: Sequence[str], attacks: Sequence[str]) -> Iterator[Job]:
    """The runs of a study, those that belong side by side one after the other."""
    for seed in study.seeds:
        for attack in attacks:
            for share in study.shares if attack != NONE else (0.0,):
                for method in methods:
                    about = ATTACKS[attack].about
                    if about and not set(about) & set(TELLS[method]):
                        continue  # nothing to lie about
                    for defence in study.defences[method]:
                        if attack != NONE and not meant(defence, ATTACKS[attack]):
                            continue
                        yield Job(study.setting, method, attack, share, defence, seed)


def meant(defence: str, attack: Attack) -> bool:
    """Whether a defence is one against such a lie."""
    if attack.silent:
        return defence == OFF
    return defence == OFF or (defence == FILTER) == (attack.model is None)


def run_missing(wanted: Sequence[Job], results: Results, at_once: int) -> None:
    """Run what is not in the results yet, each in a process of its own."""
    todo = [job for job in wanted if job not in results.rows]
    results.file.parent.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(at_once, mp_context=context, max_tasks_per_child=1) as pool:
        runs = {pool.submit(job.run): job for job in todo}
        for number, run in enumerate(as_completed(runs), 1):
            row = run.result()
            results.add(row)
            results.rows[runs[run]] = row
            print(f"{number}/{len(todo)} {_in_short(row)}", file=sys.stderr, flush=True)


def _in_short(row: dict[str, Any]) -> str:
    accuracy = "–" if row["accuracy"] is None else f"{row['accuracy']:.3f}"
    names = ("setting", "method", "attack", "share", "defence", "seed")
    what = " | ".join(str(row[name]) for name in names)
    return f"{what}: {accuracy} {row['f1']} {row['refused']} {row['ended']}"


def tables(study: Study, results: Results) -> str:
    """Markdown: for each share of liars a line for each attack, a column per method and defence."""
    return "\n\n".join(
        f"{share:.0%} of the clients lie:\n\n{_table(study, results, share)}"
        for share in study.shares
    )


def _table(study: Study, results: Results, share: float) -> str:
    columns = [(method, name) for method, names in study.defences.items() for name in names]
    head = [f"{method}, {name}" for method, name in columns]
    text = [f"| attack | {' | '.join(head)} |", "| --- |" + " --- |" * len(head)]
    for attack in study.attacks:
        place = 0.0 if attack == NONE else share
        cells = []
        for method, defence in columns:
            made = [Job(study.setting, method, attack, place, defence, s) for s in study.seeds]
            cells.append(cell([results.rows[job] for job in made if job in results.rows], share))
        if any(cells):
            text.append(f"| {attack} | {' | '.join(cells)} |")
    return "\n".join(text)


def cell(rows: Sequence[dict[str, Any]], share: float) -> str:
    """Accuracy and F1, means over the seeds; how many runs a lie has ended."""
    if not rows:
        return ""
    ran = [row for row in rows if row["accuracy"] is not None]
    words = []
    if ran:
        words.append(f"{mean(row['accuracy'] for row in ran):.3f}")
        f1 = [value for row in ran if (value := row["f1"].get(f"{share:g}")) is not None]
        words += [f"/ {mean(f1):.2f}"] if f1 else []
    if len(ran) < len(rows):
        words.append(f"stops {len(rows) - len(ran)} of {len(rows)}")
    return " ".join(words)


def main() -> None:
    """Run what is missing, then print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time (default 1)")
    parser.add_argument("--only", nargs="+", choices=ATTACKS, help="these attacks only")
    parser.add_argument("--methods", nargs="+", choices=METHODS, help="these methods only")
    parser.add_argument("--defences", nargs="+", choices=DEFENCES, help="these defences only")
    parser.add_argument("--seeds", nargs="+", type=int, help="these seeds instead")
    parser.add_argument("--shares", nargs="+", type=float, choices=SHARES, help="these only")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--table", action="store_true", help="run nothing")
    options = parser.parse_args()
    study = STUDIES[options.study]
    if options.seeds:
        study = replace(study, seeds=tuple(options.seeds))
    if options.shares:
        study = replace(study, shares=tuple(options.shares))
    if options.defences:
        kept = {
            method: [name for name in names if name in options.defences]
            for method, names in study.defences.items()
        }
        study = replace(study, defences={method: names for method, names in kept.items() if names})
    results = Results.of(options.results)
    if not options.table:
        os.environ["OMP_NUM_THREADS"] = "1"
        methods = [m for m in options.methods or METHODS if m in study.defences]
        wanted = jobs(study, methods, options.only or study.attacks)
        run_missing(list(wanted), results, options.jobs)
    print(tables(study, results))


if __name__ == "__main__":
    main()

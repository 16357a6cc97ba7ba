"""Methods x settings x seeds, each by the real command, and the table that the docs show.

    .venv/bin/python benchmarks/cells.py digits --jobs 2      run what is missing, print the table
    .venv/bin/python benchmarks/cells.py cifar10 --table      print the table only

Finished runs are lines of benchmarks/results/NAME.jsonl: a run that is there is not repeated. A
line holds the options it was made with, the run's summary and its test accuracy by round.
CIFAR-10 is read from FEDDIV_DATA.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from feddiv.config.experiment import CheckpointOptions, Experiment
from feddiv.config.reading import load_experiment

RESULTS = Path(__file__).parent / "results"

METHODS = {
    "FedAvg": ["method.name=fedavg"],
    "FedAvg with MixUp": ["method.name=fedavg-mixup"],
    "FedProx": ["method.name=fedprox"],
    "RoFL": ["method.name=rofl"],
    "ARFL (residual)": ["method.name=arfl_residual"],
    "ARFL (auto)": ["method.name=arfl_auto"],
    "JointOpt": ["method.name=jointopt"],
    "DivideMix": ["method.name=dividemix"],
    "FedCorr": ["method.name=fedcorr"],
    "FedRN": ["method.name=fedrn"],
    "FedDiv (paper)": ["method.variant=paper"],
    "FedDiv (release)": ["method.variant=release"],
    "FedDiv (plus)": [],  # as the preset has it
    "perfect filter": ["method.variant=perfect-filter"],
    "plus without second opinion": ["method.filter.second_opinion=false"],
    "plus, second opinion not calibrated": ["method.filter.second_opinion=true"],
    "plus, models weighed by trust": ["method.weigh_by_trust=always"],
    "plus without pardons": ["method.filter.starved_below=0.0"],
    "plus, last model of the hand-over": ["method.warmup.result=last"],
    "plus, dropping below .15 only": ["method.filter.drop_below=0.15"],
    "paper with the regulariser": ["method.variant=paper", "method.regulariser=always"],
    "release with the regulariser": ["method.variant=release", "method.regulariser=always"],
    "paper, mean of the hand-over": ["method.variant=paper", "method.warmup.result=average"],
}
COMPARED = ("FedAvg", "FedDiv (paper)", "FedDiv (release)", "FedDiv (plus)", "perfect filter")
NO_CLEAN = ("FedAvg", "FedDiv (plus)", "FedCorr", "perfect filter")
FEATURES = (*NO_CLEAN, "FedDiv (paper)", "FedDiv (release)", "FedAvg with MixUp")
STEPS = tuple(name for name in METHODS if name.startswith("plus"))
REPAIRED = tuple(name for name in METHODS if name.startswith(("paper", "release")))
EVERY = tuple(name for name in METHODS if name not in (*STEPS, *REPAIRED, "perfect filter"))

# What follows `feddiv run` for a setting; others are the name of a preset.
SETTINGS = {
    "digits (0, 0)": ["digits-clean"],
    "digits (0.4, 0.5)": ["quickstart", "noise.rho=0.4"],
    "digits (0.8, 0.5)": ["quickstart"],
}


@dataclass(frozen=True)
class Study:
    """Settings, methods and seeds that belong in one table."""

    settings: Sequence[str]
    methods: Sequence[str]
    seeds: Sequence[int]


STUDIES = {
    "digits": Study(
        ["quickstart", "digits-noniid", "digits-clean"],
        ["FedAvg", "FedDiv (paper)", "FedDiv (plus)", "perfect filter"],
        range(5),
    ),
    "steps": Study(["digits-noniid"], STEPS, range(5)),
    "methods": Study(list(SETTINGS), EVERY, range(3)),
    "repaired": Study(["quickstart"], REPAIRED, range(3)),
    # Seeds 0 to 4 were looked at while options were chosen.
    "cifar10": Study(["cifar10-laptop"], COMPARED, range(5, 8)),
    # The paper's federation on frozen features; nothing was chosen on any seed.
    "features": Study(
        ["cifar10-features-iid-0.8-0.5", "cifar10-features-noniid-0.3-10"], FEATURES, (20,)
    ),
    "features-no-clean": Study(["cifar10-features-iid-1.0-0.5"], NO_CLEAN, (20,)),
    # Options were chosen on seeds 0 to 2.
    "newsgroups": Study(["newsgroups"], ["FedAvg", "FedDiv (plus)"], range(20, 23)),
}


@dataclass(frozen=True)
class Job:
    """One run of a study."""

    setting: str
    method: str
    seed: int

    @property
    def arguments(self) -> list[str]:
        """What follows `feddiv run`."""
        setting = SETTINGS.get(self.setting, [self.setting])
        return [*setting, *METHODS[self.method], f"seed={self.seed}", "against=[]"]

    @property
    def experiment(self) -> Experiment:
        """What the command runs."""
        preset, *overrides = self.arguments
        return load_experiment(preset, overrides)

    def made(self, row: dict[str, Any]) -> bool:
        """Whether the row was made with the options of today; keys that are new count as unset.

        How often a checkpoint is written and the wording of a preset change no number.
        """
        if "options" not in row:
            return False
        idle = {"checkpoint": CheckpointOptions(), "description": ""}
        then = load_experiment(row["options"])
        return then.model_copy(update=idle) == self.experiment.model_copy(update=idle)

    def run(self) -> dict[str, Any]:
        """Run it in a folder that is thrown away, and keep its numbers."""
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "run"
            command = [sys.executable, "-m", "feddiv", "run", *self.arguments, "--out", str(out)]
            command += ["--workers", "0"]  # as many runs as cores: workers would be in the way
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
            done = subprocess.run(command, text=True, check=False, **quiet)  # type: ignore[call-overload]
            if done.returncode:
                raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
            lines = (out / "rounds.jsonl").read_text().splitlines()
            return {
                "setting": self.setting,
                "method": self.method,
                "seed": self.seed,
                "options": self.experiment.model_dump(mode="json", exclude_none=True),
                "command": f"feddiv run {' '.join(self.arguments)}",
                "date": datetime.now(UTC).date().isoformat(),
                "summary": json.loads((out / "summary.json").read_text()),
                "test_accuracy": [round(json.loads(line)["test_accuracy"], 4) for line in lines],
            }


def finished(file: Path) -> dict[Job, dict[str, Any]]:
    """Runs in the results file that were made with the options of today."""
    lines = file.read_text().splitlines() if file.exists() else []
    rows = [json.loads(line) for line in lines]
    jobs = {Job(row["setting"], row["method"], row["seed"]): row for row in rows}
    return {job: row for job, row in jobs.items() if job.made(row)}


def table(study: Study, rows: dict[Job, dict[str, Any]]) -> str:
    """Markdown: a line per setting and method, every seed shown, then the mean."""
    text = [
        f"| setting | method | mean of the last ten rounds, seeds {_seeds(study)} | mean "
        "| best on test, mean | filter F1 | flagged | wrong |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for setting in study.settings:
        for method in study.methods:
            summaries = _summaries(study, rows, setting, method)
            if not summaries:
                continue
            last = [summary["mean_last10_test_accuracy"] for summary in summaries]
            f1 = [summary["filter"] and summary["filter"]["f1"] for summary in summaries]
            cells = [
                setting,
                method,
                " ".join(f"{value:.3f}" for value in last),
                f"**{statistics.mean(last):.3f}**",
                _mean([summary["best_test_accuracy"] for summary in summaries]),
                _mean(f1),
                _mean([summary["flagged"] for summary in summaries]),
                _mean([summary["wrong"] for summary in summaries]),
            ]
            text.append("| " + " | ".join(cells) + " |")
    return "\n".join(text)


def wide_table(study: Study, rows: dict[Job, dict[str, Any]]) -> str:
    """Markdown: a line per method, best and last accuracy in every setting, and its time."""
    text = [
        f"| method | {' | '.join(f'{s}: best | last | last ten' for s in study.settings)} "
        "| time of a round / FedAvg's |",
        "| --- |" + " --- |" * (3 * len(study.settings) + 1),
    ]
    pace = {m: _pace(study, rows, m) for m in study.methods}
    for method in study.methods:
        cells = [method]
        for setting in study.settings:
            summaries = _summaries(study, rows, setting, method)
            for key in ("best", "last", "mean_last10"):
                cells.append(_spread([summary[f"{key}_test_accuracy"] for summary in summaries]))
        known = pace[method] is not None and pace["FedAvg"] is not None
        cells.append(f"{pace[method] / pace['FedAvg']:.1f}" if known else "–")
        text.append("| " + " | ".join(cells) + " |")
    return "\n".join(text)


def _summaries(
    study: Study, rows: dict[Job, dict[str, Any]], setting: str, method: str
) -> list[dict[str, Any]]:
    jobs = [Job(setting, method, seed) for seed in study.seeds]
    return [rows[job]["summary"] for job in jobs if job in rows]


def _pace(study: Study, rows: dict[Job, dict[str, Any]], method: str) -> Any:
    """Seconds per round, the median over all runs: others may have disturbed some."""
    every = [s for setting in study.settings for s in _summaries(study, rows, setting, method)]
    return statistics.median(s["seconds"] / s["rounds"] for s in every) if every else None


def _spread(values: Sequence[float]) -> str:
    if not values:
        return "–"
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.3f}±{spread:.3f}"


def _seeds(study: Study) -> str:
    return " ".join(str(seed) for seed in study.seeds)


def _mean(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{statistics.mean(known):.3f}" if known else "–"


def main() -> None:
    """Run what is missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("--jobs", type=int, default=2, help="runs at the same time (default 2)")
    parser.add_argument("--only", nargs="+", choices=METHODS, help="these methods only")
    parser.add_argument("--seeds", nargs="+", type=int, help="these seeds only")
    parser.add_argument("--table", action="store_true", help="run nothing")
    options = parser.parse_args()
    study, file = STUDIES[options.study], RESULTS / f"{options.study}.jsonl"
    if not options.table:
        os.environ["OMP_NUM_THREADS"] = "1"
        RESULTS.mkdir(exist_ok=True)
        done = finished(file)
        todo = [
            job
            for seed in options.seeds or study.seeds
            for setting in study.settings
            for method in options.only or study.methods
            if (job := Job(setting, method, seed)) not in done
        ]
        with ThreadPoolExecutor(options.jobs) as pool:
            runs = [pool.submit(job.run) for job in todo]
            for number, run in enumerate(as_completed(runs), 1):
                row = run.result()
                with file.open("a") as results:
                    results.write(json.dumps(row) + "\n")
                print(f"{number}/{len(todo)} {row['command']}", file=sys.stderr, flush=True)
    shown = wide_table if options.study == "methods" else table
    print(shown(study, finished(file)))


if __name__ == "__main__":
    main()

"""How good the audit of labels is, beside what a site would use instead on the same draw.

    .venv/bin/python benchmarks/audit.py                      run what is missing, print the tables
    .venv/bin/python benchmarks/audit.py digits-noniid --seeds 20 21 --audits federated pooled
    .venv/bin/python benchmarks/audit.py --table --figure docs/images/audit.png       run nothing
    .venv/bin/python benchmarks/audit.py digits-noniid --seeds 0 --epochs 5 10 20     try rivals out

Three audits: FedDiv's at the end of a run, and cleanlab (`pip install -e '.[benchmarks]'`) with
cross-validated probabilities of the same net, trained by each client alone and on the data of all
clients pooled, which no federation could do. The truth of the draw judges all three. Finished ones
are lines of benchmarks/results/audit.jsonl and are not repeated. CIFAR is read from FEDDIV_DATA.
"""

import argparse
import json
import os
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from audit_measures import Verdict, measured
from audit_tables import figure, tables, trials

import feddiv
from feddiv.config.experiment import Experiment
from feddiv.config.reading import load_experiment
from feddiv.core.arrays import Mask
from feddiv.data import Draw
from feddiv.runs.prepare import prepare
from feddiv.tables.rows import fingerprint

FILE = Path(__file__).parent / "results" / "audit.jsonl"
FEDERATED, ALONE, POOLED = AUDITS = ("federated", "alone", "pooled")


@dataclass(frozen=True)
class Setting:
    """What follows `feddiv run`, the seeds to report, and how long each rival trains.

    The epochs are those with which the rival was best, by the mean of F1 and AUROC, on the seeds of
    tuning, 0 to 19 (`--table --epochs` prints what was tried).
    """

    arguments: Sequence[str]
    seeds: Sequence[int]
    epochs: dict[str, int]


SETTINGS = {
    "cifar10-laptop": Setting(["cifar10-laptop"], range(20, 23), {ALONE: 40, POOLED: 40}),
    "digits-noniid": Setting(["digits-noniid"], range(20, 25), {ALONE: 40, POOLED: 10}),
    "cifar10-features-iid-0.8-0.5": Setting(
        ["cifar10-features-iid-0.8-0.5", "rounds=200"], (20,), {ALONE: 10, POOLED: 1}
    ),
    "cifar100n-annotators": Setting(
        ["cifar100n-annotators", "data.encoder=effnet_lite0", "model.name=mlp"],
        (20,),
        {ALONE: 20, POOLED: 2},
    ),
}


@dataclass(frozen=True)
class Job:
    """One audit of one draw; `epochs` are those of a rival's nets, 0 for the federated audit."""

    setting: str
    audit: str
    seed: int
    epochs: int

    @property
    def experiment(self) -> Experiment:
        """The run whose draw is audited."""
        preset, *overrides = SETTINGS[self.setting].arguments
        return load_experiment(preset, [*overrides, f"seed={self.seed}", "against=[]"])

    @property
    def command(self) -> str:
        """What makes this line."""
        words = [self.setting, "--audits", self.audit, "--seeds", self.seed]
        words += ["--epochs", self.epochs] if self.epochs else []
        return f"benchmarks/audit.py {' '.join(map(str, words))}"

    def row(self, outcome: dict[str, Any], seconds: float) -> dict[str, Any]:
        """The line of results."""
        return {
            **vars(self),
            **outcome,
            "command": self.command,
            "date": datetime.now(UTC).date().isoformat(),
            "seconds": round(outcome.get("seconds", seconds), 1),
            "options": self.experiment.model_dump(mode="json", exclude_none=True),
        }


def finished(file: Path) -> dict[Job, dict[str, Any]]:
    """Lines that were made with the options of today."""
    lines = file.read_text().splitlines() if file.exists() else []
    rows = [json.loads(line) for line in lines]
    jobs = {Job(*(row[name] for name in Job.__dataclass_fields__)): row for row in rows}
    return {
        job: row
        for job, row in jobs.items()
        if job.setting in SETTINGS and _made_with(row, job.experiment)
    }


def _made_with(row: Mapping[str, Any], experiment: Experiment) -> bool:
    """Whether a line of results was made with these options; keys that are new count as unset."""
    return fingerprint(load_experiment(row["options"])) == fingerprint(experiment)


def chosen(settings: Sequence[str], audits: Sequence[str]) -> Iterator[Job]:
    """What the tables report."""
    for name in settings:
        setting = SETTINGS[name]
        for seed in setting.seeds:
            for audit in audits:
                yield Job(name, audit, seed, setting.epochs.get(audit, 0))


def federated(job: Job, runs: Path | None) -> Iterator[tuple[Job, dict[str, Any]]]:
    """Run FedDiv, or go on with a run that was kept, and audit as every client of the run does."""
    with tempfile.TemporaryDirectory() as folder:
        out = (runs or Path(folder)) / f"{job.setting}-{job.seed}"
        config = out / "config.toml"
        if config.is_file():
            if not _made_with({"options": tomllib.loads(config.read_text())}, job.experiment):
                raise SystemExit(f"--runs: {out} was made with other options than {job.command}")
            run = feddiv.resume(out, workers=0)
        else:
            run = feddiv.run(job.experiment, out=out, workers=0)
        draw = Draw.load(run.folder / "draw.npz")
        verdicts = []
        for audit in feddiv.audit(run):
            judged = audit.judged
            assert judged is not None
            estimate = judged.estimate
            verdicts.append(
                Verdict(judged.quality, judged.issues, estimate.share, estimate.low, estimate.high)
            )
        accuracy = round(run.summary["mean_last10_test_accuracy"], 4)
        noted = {"test_accuracy": accuracy, "seconds": run.summary["seconds"]}
        yield job, {**noted, **measured(verdicts, wrong_labels(draw))}


def rivals(jobs: Sequence[Job]) -> Iterator[tuple[Job, dict[str, Any]]]:
    """Cleanlab after several numbers of epochs of the same training."""
    from audit_rivals import alone, pooled, predictions, verdicts

    job = jobs[0]
    prepared = prepare(job.experiment)
    workspace, draw = prepared.workspace, prepared.draw
    groups = alone(draw) if job.audit == ALONE else pooled(draw)
    epochs = [each.epochs for each in jobs]
    found = predictions(workspace, groups, job.experiment.train, job.seed, epochs)
    wrong = wrong_labels(draw)
    for each, probabilities in zip(jobs, found, strict=True):
        outcome = measured(list(verdicts(draw, groups, probabilities)), wrong)
        margins = list(verdicts(draw, groups, probabilities, "normalized_margin"))
        by_margin = measured(margins, wrong)
        kept = ("auroc", "auroc_within_clients", "average_precision", "first_wrong")
        outcome["by_margin"] = {name: by_margin[name] for name in kept}
        yield each, outcome


def wrong_labels(draw: Draw) -> list[Mask]:
    """Which labels [n] of each client are wrong."""
    truth = draw.truth
    assert truth is not None
    return [np.asarray(draw.given[part] != truth[part]) for part in draw.parts]


def run_missing(jobs: Sequence[Job], file: Path, runs: Path | None = None) -> None:
    """Append the lines that are not there yet, as they come; `runs` keeps runs of FedDiv."""
    done = finished(file)
    todo = [job for job in dict.fromkeys(jobs) if job not in done]
    groups: dict[tuple[str, str, int], list[Job]] = {}
    for job in todo:
        groups.setdefault((job.setting, job.audit, job.seed), []).append(job)
    for group in groups.values():
        begun = time.monotonic()
        made = federated(group[0], runs) if group[0].audit == FEDERATED else rivals(group)
        for job, outcome in made:
            row = job.row(outcome, time.monotonic() - begun)
            with file.open("a") as results:
                results.write(json.dumps(row) + "\n")
            print(f"{job.command}: F1 {row['f1']}, AUROC {row['auroc']}", file=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing, then print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("settings", nargs="*", metavar="SETTING", help=", ".join(SETTINGS))
    parser.add_argument("--audits", nargs="+", choices=AUDITS, default=AUDITS)
    parser.add_argument("--seeds", nargs="+", type=int, help="instead of those of the tables")
    parser.add_argument("--epochs", nargs="*", type=int, help="instead of those chosen")
    parser.add_argument("--runs", type=Path, help="keep FedDiv's runs in this folder")
    parser.add_argument("--table", action="store_true", help="run nothing")
    parser.add_argument("--figure", type=Path, help="also draw precision over recall")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.settings if name not in SETTINGS]
    if unknown:
        parser.error(f"{unknown[0]!r} is no setting; there are {', '.join(SETTINGS)}")
    jobs = list(chosen(given.settings or list(SETTINGS), given.audits))
    if given.seeds:
        first = {(job.setting, job.audit): job for job in jobs}.values()
        jobs = [Job(j.setting, j.audit, seed, j.epochs) for j in first for seed in given.seeds]
    if given.epochs:
        rival = [job for job in jobs if job.audit != FEDERATED]
        jobs = [Job(j.setting, j.audit, j.seed, epochs) for j in rival for epochs in given.epochs]
    if not given.table:
        os.environ["OMP_NUM_THREADS"] = "1"
        FILE.parent.mkdir(exist_ok=True)
        run_missing(jobs, FILE, given.runs)
    rows = finished(FILE)
    reported = [rows[job] for job in chosen(list(SETTINGS), AUDITS) if job in rows]
    print(tables(reported) if given.epochs is None else trials(list(rows.values())))
    if given.figure:
        figure(reported, given.figure)


if __name__ == "__main__":
    main()

"""Result lines become the tables of the docs, and a run that is in them is not repeated."""

import json
from pathlib import Path
from typing import Any

import attacks
import crash
import leakage
import pytest
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "security-benchmarks.md").read_text()
RESULTS = ROOT / "benchmarks" / "results"


def attack_row(job: attacks.Job, accuracy: float | None, f1: float | None) -> dict[str, Any]:
    told = {} if f1 is None else {"0": f1, "0.1": f1, "0.3": f1}
    return {**vars(job), "arguments": job.arguments, "accuracy": accuracy, "f1": told}


def test_a_cell_has_means_over_seeds_and_counts_runs_that_were_ended() -> None:
    job = attacks.Job("digits", "plus", "all clean", 0.3, "off", 0)
    rows = [attack_row(job, *numbers) for numbers in ((0.9, 0.5), (0.7, 0.7), (None, None))]
    assert attacks.cell(rows[:2], 0.3) == "0.800 / 0.60"
    assert attacks.cell(rows, 0.3) == "0.800 / 0.60 stops 1 of 3"
    assert attacks.cell(rows[2:], 0.3) == "stops 1 of 1"
    assert attacks.cell([attack_row(job, 0.5, None)], 0.3) == "0.500"
    assert attacks.cell([], 0.3) == ""


def test_finished_runs_are_found_again_and_others_are_left_to_do(tmp_path: Path) -> None:
    study = attacks.Study("digits", (1,), ("none", "all clean"), (0.3,), {"FedAvg": ("off",)})
    (job,) = attacks.jobs(study, ["FedAvg"], study.attacks)  # without a filter no lie about it
    assert job == attacks.Job("digits", "FedAvg", "none", 0.0, "off", 1)
    results = attacks.Results.of(tmp_path)
    assert results.rows == {}
    results.add(attack_row(job, 0.88, None))
    results.add({**attack_row(job, 0.11, None), "arguments": ["of", "earlier", "settings"]})
    found = attacks.Results.of(tmp_path)
    assert [row["accuracy"] for row in found.rows.values()] == [0.88]
    attacks.run_missing([job], found, 1)  # nothing to do
    assert attacks.tables(study, found).splitlines()[-1] == "| none | 0.880 |"


def test_the_best_guess_stands_beside_the_blind_one() -> None:
    job = leakage.Job("quickstart", "none", 0)
    row = {
        "accuracy": 0.9,
        "f1": 0.8,
        "noise_rate": {"blind": 0.3, "tally": 0.1, "histogram": 0.2},
        "class_balance": {"blind": 0.25},
        "membership": {"trials": 5, "knows the rest": 1.0, "knows the sample": 0.5},
    }
    line = leakage.table({job: row}, ["quickstart"], [0]).splitlines()[-1]
    assert line == (
        "| quickstart | none | 0.900 | 0.80 | 0.100 by tally (blind 0.300) "
        "| nothing is sent (blind 0.250) | 1.00 | 0.50 |"
    )


def test_a_new_outcome_of_crashes_replaces_the_old_one_only() -> None:
    old = [
        {"target": "data get", "kind": "killed", "trials": 1, "crashes": 1, "same": 1},
        {"target": "run", "kind": "killed", "trials": 2, "crashes": 2, "same": 1},
    ]
    new = {"target": "run", "kind": "killed", "trials": 3, "crashes": 4, "same": 3}
    lines = crash.table(crash.replaced(old, new)).splitlines()
    assert lines[2:] == ["| run | killed | 3 | 4 | 3 |", "| data get | killed | 1 | 1 | 1 |"]


def test_the_page_has_the_tables_of_the_results() -> None:
    made = []
    if (RESULTS / "crash.json").exists():
        made.append(crash.table(json.loads((RESULTS / "crash.json").read_text())["outcomes"]))
    if rows := leakage.finished(RESULTS):
        made.append(leakage.table(rows, leakage.SETTINGS, leakage.SEEDS))
    attacked = attacks.Results.of(RESULTS)
    for study in attacks.STUDIES.values():
        if any(job.setting == study.setting for job in attacked.rows):
            made.append(attacks.tables(study, attacked))
    missing = [text.splitlines()[0] for text in made if text not in PAGE]
    assert missing == [], "print them with --table and put them on the page"
    lines = {line for text in made for line in text.splitlines()}
    unfounded = [line for line in PAGE.splitlines() if measured(line) and line not in lines]
    assert unfounded == [], "no row of the results says so"


def measured(line: str) -> bool:
    """Whether it is a line of a table of attacks: its first cell is one, another has a number."""
    return line.removeprefix("| ").split(" | ")[0] in attacks.ATTACKS and "0." in line


@pytest.mark.slow
def test_one_run_with_a_liar_makes_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = ["quickstart", "rounds=4", "warmup.iterations=1", "data.images=160", "train.epochs=1"]
    monkeypatch.setitem(attacks.SETTINGS, "digits", [*tiny, "against=[]"])
    row = attacks.Job("digits", "plus", "counts below zero", 0.3, "off", 0).run()
    assert json.loads(json.dumps(row)) == row
    assert row["refused"]["of liars"] > 0
    assert row["refused"]["of others"] == 0
    assert row["ended"] == ""
    assert 0 < row["accuracy"] <= 1
    assert set(row["f1"]) == {"0", "0.1", "0.3"}

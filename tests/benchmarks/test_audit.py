"""Measures of audits in numbers to check by hand, rivals that do not see what they judge."""

import json
from pathlib import Path
from typing import Any

import audit
import audit_measures as measures
import audit_rivals as rivals
import audit_tables
import numpy as np
import pytest
import torch
from tests.docs.pages import ROOT

from feddiv.core.randomness import Streams
from feddiv.runs.prepare import prepare

TINY = ["quickstart", "rounds=4", "warmup.iterations=1", "data.images=120", "train.epochs=1"]


def test_an_audit_is_measured_over_all_clients_and_shares_by_client() -> None:
    # Two labels of five are wrong: the worst, and the third worst.
    verdicts = [
        measures.Verdict(np.array([0.1, 0.9]), np.array([True, False]), 0.4, 0.3, 0.6),
        measures.Verdict(np.array([0.3, 0.4, 1.0]), np.array([True, False, False]), 0.5, 0.4, 0.6),
    ]
    wrong = [np.array([True, False]), np.array([False, True, False])]
    found = measures.measured(verdicts, wrong)
    assert (found["precision"], found["recall"], found["f1"]) == (0.5, 0.5, 0.5)
    assert found["auroc"] == round(5 / 6, 4)
    assert found["auroc_within_clients"] == 0.75  # 1 and 1/2
    assert found["average_precision"] == round((1 + 2 / 3) / 2, 4)
    assert found["first_wrong"] == 0.4  # there are fewer than a hundred
    assert found["brier"] == round((0.01 + 0.01 + 0.49 + 0.16 + 0.0) / 5, 4)
    # Bins: 0.1 against 0, 0.3 against 1, 0.4 against 0, 0.9 and 1.0 against 1.
    assert found["calibration_error"] == round((0.1 + 0.7 + 0.4 + 0.1) / 5, 4)
    assert found["curve"][0] == 1.0
    assert found["curve"][24] == 1.0  # recall 1/2
    assert found["curve"][25] == found["curve"][-1] == round(2 / 3, 4)
    assert found["clients"][1] == {"labels": 3, "wrong": 1, "share": 0.5, "low": 0.4, "high": 0.6}


def test_labels_of_one_quality_are_taken_together() -> None:
    precision, recall = measures.precisions(
        np.array([0.5, 0.2, 0.5, 0.2]), np.array([True, True, False, False])
    )
    assert precision.tolist() == [0.5, 0.5]
    assert recall.tolist() == [0.5, 1.0]


def test_shares_are_judged_where_there_are_labels_enough() -> None:
    few = {"labels": 99, "wrong": 0, "share": 1.0, "low": 0.9, "high": 1.0}
    enough = {"labels": 100, "wrong": 30, "share": 0.25, "low": 0.2, "high": 0.28}
    assert measures.errors_of_shares([few, enough]) == pytest.approx([0.05])
    assert measures.held([few, enough]) == [False]


def test_every_sample_is_in_one_fold_and_classes_are_spread() -> None:
    labels = np.array([0] * 10 + [1] * 5 + [2])
    folds = rivals.folds(labels, Streams(3))
    assert sorted(np.concatenate(folds).tolist()) == list(range(16))
    assert all((labels[rows] == 0).sum() == 2 for rows in folds)
    assert all((labels[rows] == 1).sum() == 1 for rows in folds)


def test_a_rival_is_asked_about_samples_that_its_net_has_not_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(audit.SETTINGS, "digits", audit.Setting(TINY, (0,), {}))
    experiment = audit.Job("digits", audit.POOLED, 0, 1).experiment
    prepared = prepare(experiment)
    seen: list[set[int]] = []
    asked: list[set[int]] = []
    train, predict = rivals.train, rivals.predict_array

    def train_noted(net: Any, samples: Any, select: Any, *rest: Any) -> int:
        seen.append(set(select(0)[0].tolist()))
        return train(net, samples, select, *rest)

    def predict_noted(net: Any, samples: Any, rows: torch.Tensor) -> Any:
        asked.append(set(rows.tolist()))
        return predict(net, samples, rows)

    monkeypatch.setattr(rivals, "train", train_noted)
    monkeypatch.setattr(rivals, "predict_array", predict_noted)
    groups = rivals.pooled(prepared.draw)
    ((probabilities,),) = rivals.predictions(prepared.workspace, groups, experiment.train, 0, [1])
    everyone = set(range(sum(len(part) for part in prepared.draw.parts)))
    assert set.union(*asked) == everyone
    assert all(learnt == everyone - judged for learnt, judged in zip(seen, asked, strict=True))
    assert probabilities.sum(axis=1) == pytest.approx(1)


def test_cleanlab_is_asked_for_issues_quality_and_share_of_each_client() -> None:
    rows = np.arange(60)
    truth = rows % 3
    given = np.where(rows % 10 == 0, (truth + 1) % 3, truth)  # every tenth label is wrong
    probabilities = np.full((60, 3), 0.05)
    probabilities[rows, truth] = 0.9
    first, second = rivals.by_cleanlab([given[:20], given[20:]], probabilities)
    assert first.flagged.tolist() == (given[:20] != truth[:20]).tolist()
    assert second.flagged.sum() == 4
    assert (first.share, second.share) == (0.1, 0.1)
    assert first.quality[0] == 0.05
    assert first.quality[1] == 0.9


def test_a_client_with_one_class_has_no_issues() -> None:
    given, probabilities = np.ones(8, np.int64), np.full((8, 3), 1 / 3)
    (verdict,) = rivals.by_cleanlab([given], probabilities)
    assert not verdict.flagged.any()
    assert verdict.share == 0.0


@pytest.mark.slow
def test_all_audits_of_a_draw_make_lines_that_are_not_repeated(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    short = {audit.ALONE: 1, audit.POOLED: 1}
    monkeypatch.setattr(audit, "SETTINGS", {"digits": audit.Setting(TINY, (0,), short)})
    file, runs = tmp_path / "audit.jsonl", tmp_path / "runs"
    jobs = list(audit.chosen(["digits"], audit.AUDITS))
    audit.run_missing(jobs, file, runs)
    written = file.read_text()
    audit.run_missing(jobs, file)
    assert file.read_text() == written
    audit.run_missing(jobs[:1], tmp_path / "again.jsonl", runs)  # of the run that was kept
    assert (tmp_path / "again.jsonl").read_text() == written.splitlines(keepends=True)[0]
    longer = [*TINY, "train.epochs=2"]
    with monkeypatch.context() as changed:
        changed.setitem(audit.SETTINGS, "digits", audit.Setting(longer, (0,), short))
        with pytest.raises(SystemExit, match="other options"):
            audit.run_missing(jobs[:1], tmp_path / "longer.jsonl", runs)
    rows = [json.loads(line) for line in written.splitlines()]
    assert [row["audit"] for row in rows] == list(audit.AUDITS)
    truths = [[client["wrong"] for client in row["clients"]] for row in rows]
    assert truths[0] == truths[1] == truths[2]  # the same draw
    assert "low" in rows[0]["clients"][0]
    assert rows[2]["command"] == "benchmarks/audit.py digits --audits pooled --seeds 0 --epochs 1"
    lines = audit_tables.tables(rows).splitlines()
    assert sum(line.startswith("| `digits`") for line in lines) == 6
    assert "| 0 of 0 | – | – | – |" in lines[-1]  # no client has labels enough for an estimate
    audit_tables.figure(rows, tmp_path / "audit.png")
    assert (tmp_path / "audit.png").stat().st_size > 5000


def test_the_page_has_the_tables_of_the_results() -> None:
    rows = audit.finished(audit.FILE)
    jobs = audit.chosen(list(audit.SETTINGS), audit.AUDITS)
    reported = [rows[job] for job in jobs if job in rows]
    page = (ROOT / "docs" / "results.md").read_text()
    for table in audit_tables.tables(reported).split("\n\n"):
        assert table in page, "print them with --table and put them on the page"

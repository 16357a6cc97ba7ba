"""The table of one site: the worst first, what to do about each label, and as a file."""

import csv
import io
import sys
import time

import numpy as np
import pytest
from tests.audits.made import GIVEN, PREDICTED, made

from feddiv.audits.label_audit import COLUMNS, LabelAudit, LabelAudits, joined
from feddiv.audits.labels_file import csv_text
from feddiv.methods.contract import Assessment


def rows_of(audit):
    return list(csv.DictReader(io.StringIO(csv_text(audit))))


def test_the_worst_first_and_what_to_do():
    rows = rows_of(made())
    assert tuple(rows[0]) == COLUMNS
    assert [row["sample"] for row in rows[:3]] == ["3.png", "1.png", "4.png"]
    assert [row["given_label"] for row in rows[:3]] == ["eel", "dog", "eel"]
    assert [row["predicted_label"] for row in rows[:3]] == ["dog", "eel", "dog"]
    # Sample 3 is doubted most, and the model is not sure enough of another label.
    assert [row["action"] for row in rows] == ["review", "relabel", "relabel", *["keep"] * 3]
    assert [row["is_label_issue"] for row in rows] == ["True"] * 3 + ["False"] * 3
    assert rows[0]["label_quality"] == "0.050000"
    assert rows[0]["confidence"] == "0.600000"


def test_confusions_and_classes():
    audit = made()
    assert audit.confusions() == [("eel", "dog", 2), ("dog", "eel", 1)]
    assert audit.by_class() == [
        ("cat", 1, pytest.approx(0.1), 0),
        ("dog", 2, pytest.approx((0.9 + 0.05) / 2), 1),
        ("eel", 3, pytest.approx((0.95 + 0.9 + 0.1) / 3), 2),
    ]


def test_without_an_opinion_the_table_is_in_the_samples_order():
    rows = rows_of(made(opinion=Assessment(PREDICTED)))
    assert [row["sample"] for row in rows] == [f"{n}.png" for n in range(6)]
    assert rows[0]["predicted_label"] == "cat"
    assert {row["label_quality"] + row["is_label_issue"] + row["action"] for row in rows} == {""}
    assert made(opinion=Assessment(PREDICTED)).by_class() == [
        *(("cat", 1, None, None), ("dog", 2, None, None), ("eel", 3, None, None))
    ]
    nothing = rows_of(made(opinion=None))
    assert [row["given_label"] for row in nothing] == ["cat", "dog", "dog", "eel", "eel", "eel"]
    assert nothing[0]["predicted_label"] == ""


def test_names_that_a_spreadsheet_would_run_are_text():
    audit = made(classes=("=1+2", "@x", "b"), name=lambda row: f"-{row}!=cmd")
    cells = [value for row in rows_of(audit) for value in row.values()]
    assert not any(value[:1] in ("=", "@", "-") for value in cells)
    assert "'=1+2" in cells


def test_a_model_that_agrees_with_a_doubted_label_relabels_nothing():
    opinion = Assessment(GIVEN, np.zeros(6), confidence=np.ones(6))
    assert {row["action"] for row in rows_of(made(opinion=opinion))} == {"review"}


def test_parts_of_a_site_are_one_and_what_one_lacks_all_lack():
    both = joined([Assessment(PREDICTED, np.ones(6)), Assessment(PREDICTED[:2], np.zeros(2))])
    assert len(both.predicted) == 8
    assert both.p_clean.tolist() == [1.0] * 6 + [0.0] * 2
    assert joined([Assessment(PREDICTED, np.ones(6)), Assessment(PREDICTED)]).p_clean is None


def test_all_sites_in_one_table_with_pandas_and_without(monkeypatch):
    audits = LabelAudits((made(), made(opinion=None)))
    frame = audits.table
    assert list(frame.columns) == ["client", *COLUMNS]
    assert len(frame) == 12
    assert frame["sample"][0] == "3.png"
    assert frame["is_label_issue"][:6].sum() == audits[0].is_label_issue.sum() == 3
    monkeypatch.setitem(sys.modules, "pandas", None)
    arrays = LabelAudits((made(),)).table
    assert arrays["is_label_issue"].tolist() == [True] * 3 + [False] * 3
    assert arrays["label_quality"].dtype == np.float64


def test_a_hundred_thousand_labels_take_seconds():
    rng = np.random.default_rng(0)
    count = 100_000
    given = rng.integers(0, 100, count)
    opinion = Assessment(
        rng.integers(0, 100, count), rng.random(count), confidence=rng.random(count)
    )
    names = tuple(f"class {number}" for number in range(100))
    audit = LabelAudit("big", names, given, opinion, lambda row: f"folder/{row:06d}.png")
    started = time.process_time()
    assert csv_text(audit).count("\n") == count + 1
    assert time.process_time() - started < 5

"""Rows: lines of JSON that are known by the options of their run."""

import json
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from tests.docs.pages import ROOT

from feddiv.config.reading import load_experiment
from feddiv.core.errors import UserError
from feddiv.core.files import read_regular
from feddiv.tables import rows as rows_module
from feddiv.tables.rows import Row, add_row, fingerprint, newest, read_rows

RESULTS = ROOT / "benchmarks" / "results"


def row(seed: int = 0, overrides: dict[str, Any] | None = None, **fields: Any) -> Row:
    experiment = load_experiment("quickstart", {"seed": seed, "against": [], **(overrides or {})})
    known: dict[str, Any] = {
        "setting": "digits",
        "method": "feddiv",
        "seed": seed,
        "options": experiment.model_dump(mode="json", exclude_none=True),
        "command": "feddiv run quickstart",
        "date": "2026-01-01",
        "summary": {"best_test_accuracy": 0.9, "filter": {"f1": 0.5}, "method": "feddiv"},
        "test_accuracy": [0.1, None, 0.9],
    }
    return Row(**known | fields)


def test_a_row_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "rows.jsonl"
    rows = [row(0), row(1, paper="cifar10-iid-0.8-0.5")]
    for each in rows:
        add_row(file, each)
    assert read_rows(file) == rows
    assert rows[0].number("filter.f1") == 0.5
    assert rows[0].number("filter.nothing") is rows[0].number("method") is None


def test_a_row_is_known_by_the_options_that_change_numbers() -> None:
    today = fingerprint(load_experiment("quickstart"))
    idle = {"checkpoint.seconds": 3.0, "description": "other", "against": ["fedcorr"]}
    assert row(0, idle, setting="called otherwise").made_by == today
    assert row(1).made_by != today
    assert row(0, {"noise.rho": 0.5}).made_by != today
    assert row(1, {"method.name": "fedavg"}).setting_made_by == row().setting_made_by
    assert row(1).method_made_by == row().method_made_by
    assert row(0, {"method.filter.drop_below": 0.1}).method_made_by != row().method_made_by


def test_keys_that_are_new_count_as_unset_and_keys_that_are_gone_for_no_run() -> None:
    old = row()
    del old.options["robust"], old.options["method"]["warmup"]
    assert old.made_by == row().made_by
    gone = row()
    gone.options["method"]["telepathy"] = True
    assert gone.experiment is None
    assert newest([gone, old, row(1)]).keys() == {row().made_by, row(1).made_by}


def test_a_row_runs_nobodys_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "evil_module.py").write_text("raise SystemExit('code was run')")
    monkeypatch.syspath_prepend(tmp_path)
    foreign = row()
    foreign.options["method"] = {"name": "evil_module:Mine"}
    assert foreign.experiment is None


@pytest.mark.parametrize("torn", [b'{"setting": "digi', b"\x00\x00"])
def test_a_line_that_a_crash_cut_off_is_no_row_and_the_next_takes_its_place(
    tmp_path: Path, torn: bytes
) -> None:
    file = tmp_path / "rows.jsonl"
    add_row(file, row(0))
    with file.open("ab") as opened:
        opened.write(torn)
    assert [each.seed for each in read_rows(file)] == [0]
    add_row(file, row(1))
    assert [each.seed for each in read_rows(file)] == [0, 1]
    assert file.read_bytes().count(b"\n") == 2


def test_a_missing_line_break_at_the_end_loses_nothing(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps(row(0).as_json()))
    add_row(file, row(1))
    assert [each.seed for each in read_rows(file)] == [0, 1]


def test_two_sweeps_that_share_a_file_lose_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "rows.jsonl"
    other = Thread(target=add_row, args=(file, row(1)))

    def read_while_another_adds(path: Path, most: int) -> bytes:
        content = read_regular(path, most)
        monkeypatch.setattr(rows_module, "read_regular", read_regular)
        other.start()
        other.join(0.3)  # it has to wait for us
        return content

    monkeypatch.setattr(rows_module, "read_regular", read_while_another_adds)
    add_row(file, row(0))
    other.join()
    assert [each.seed for each in read_rows(file)] == [0, 1]


@pytest.mark.parametrize("line", ["[1]", "{}", '{"setting": 1', '{"attack": "none", "seed": 1}'])
def test_a_file_of_something_else_is_refused_by_its_line(tmp_path: Path, line: str) -> None:
    file = tmp_path / "other.jsonl"
    file.write_text(f"{json.dumps(row().as_json())}\n{line}\n")
    with pytest.raises(UserError, match=r"other\.jsonl, line 2: is "):
        read_rows(file)


@pytest.mark.parametrize(
    "name", ["digits", "methods", "steps", "repaired", "cifar10", "features", "newsgroups"]
)
def test_rows_of_earlier_benchmarks_are_read_with_the_options_of_today(name: str) -> None:
    rows = read_rows(RESULTS / f"{name}.jsonl")
    assert rows
    assert all(each.experiment is not None and each.experiment.seed == each.seed for each in rows)
    assert all(each.number("best_test_accuracy") for each in rows)


def test_rows_without_options_are_read_and_count_for_no_run() -> None:
    rows = read_rows(RESULTS / "cifar10-2500.jsonl")
    assert len(rows) == 11
    assert newest(rows) == {}

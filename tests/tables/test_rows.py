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
from feddiv.tables.rows import Row, add_row, fingerprint, newest, read_rows, row_of
from feddiv.tables.verb import table_of

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


@pytest.mark.parametrize("content", [b"ssh-ed25519 AAAA", b'{"other": 1', b"\xff"])
def test_a_file_of_somebody_elses_is_not_cut(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "keys"
    file.write_bytes(content)
    for job in (lambda: read_rows(file), lambda: add_row(file, row(0))):
        with pytest.raises(UserError, match="keys: is no file of result rows"):
            job()
    assert file.read_bytes() == content


@pytest.mark.parametrize("torn", [b'{"se', b'{"setting": "digits", "s\0\0', b"\0\0"])
def test_the_first_row_may_have_been_cut_off(tmp_path: Path, torn: bytes) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_bytes(torn)
    assert read_rows(file) == []
    add_row(file, row(0))
    assert [each.seed for each in read_rows(file)] == [0]


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


@pytest.mark.parametrize("key", ["options", "summary", "setting"])
def test_a_row_that_is_nested_without_end_is_refused_by_its_line(tmp_path: Path, key: str) -> None:
    file = tmp_path / "rows.jsonl"
    tree: Any = {}
    for _ in range(500):
        tree = {"data": tree}
    file.write_text(json.dumps({**row().as_json(), key: tree}) + "\n")
    with pytest.raises(UserError, match=r"line 1: .*nested more than 100 levels deep"):
        read_rows(file)


def test_what_is_nested_as_deep_as_allowed_can_be_worked_with(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    tree: Any = {}
    for _ in range(98):
        tree = {"data": tree}
    file.write_text(json.dumps({**row().as_json(), "options": tree}))
    assert "| digits | feddiv | 0 |" in table_of([file])


@pytest.mark.parametrize("seed", ["-1", str(2**63), "9" * 4000])
def test_a_seed_that_no_run_can_have_is_refused(tmp_path: Path, seed: str) -> None:
    file = tmp_path / "rows.jsonl"
    line = json.dumps({**row().as_json(), "seed": "S"}).replace('"seed": "S"', f'"seed": {seed}')
    file.write_text(line)
    with pytest.raises(UserError, match=r"line 1: is no result row \(seed is ") as caught:
        read_rows(file)
    assert "allowed is 0 to 9223372036854775807" in str(caught.value)
    assert len(str(caught.value)) < 300


def test_numbers_that_no_run_can_have_are_not_there(tmp_path: Path) -> None:
    for method, value in (("fedavg", 1e250), ("fedcorr", -1e299)):
        for seed in range(3):
            summary = {"best_test_accuracy": value / (seed + 1), "filter": {"f1": "x"}}
            made = row(seed, {"method.name": method}, method=method, summary=summary)
            add_row(tmp_path / "rows.jsonl", made)
    assert "| fedcorr | 0 to 2 | – | – | – | – | – |" in table_of([tmp_path])


@pytest.mark.parametrize("value", ['"x"', "[1]", "true", "1e999"])
def test_an_accuracy_that_is_no_number_is_not_there(tmp_path: Path, value: str) -> None:
    experiment = load_experiment("quickstart")
    (tmp_path / "config.toml").write_text("")
    (tmp_path / "summary.json").write_text("{}")
    (tmp_path / "rounds.jsonl").write_text(
        f'{{"test_accuracy": {value}}}\n{{"test_accuracy": 0.123456}}\n'
    )
    found = row_of(tmp_path, experiment, setting="mine", method="fedavg", command="")
    assert found.test_accuracy == [None, 0.1235]


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

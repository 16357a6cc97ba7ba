"""Folders of runs, whole and damaged, as a report reads them."""

import json
import os
import shutil
from pathlib import Path

import pytest
from tests.reports.folders import Shape, made_run

from feddiv.core.errors import UserError
from feddiv.reports.record import number, read_runs

BEGUN = Path(__file__).parents[1] / "runs" / "made_before"


def test_a_run_and_those_it_was_compared_with(tmp_path: Path) -> None:
    made_run(tmp_path / "a", Shape(), "against=[fedprox, fedavg]")
    for name in ("fedavg", "fedprox"):
        made_run(tmp_path / "a" / "against" / name, Shape(), f"method.name={name}", opinion=False)
    records = read_runs([tmp_path / "a"])
    assert [record.label for record in records] == ["feddiv", "fedprox", "fedavg"]
    main = records[0]
    assert main.ended
    assert main.spent == list(range(1, 9))
    assert main.warmup == 1
    assert main.accuracy["last"] == main.column("test_accuracy")[-1] == 0.9 - 0.6 / 8
    assert main.best_round == 8
    assert main.column("filter.f1")[0] is None
    assert main.total("filter.f1") is not None
    assert records[1].assessment.keys() >= {"client", "predicted_label"}


def test_runs_of_one_method_are_told_apart_by_seed_or_folder(tmp_path: Path) -> None:
    made_run(tmp_path / "one", Shape(rounds=3), "seed=1")
    made_run(tmp_path / "two", Shape(rounds=3), "seed=2")
    made_run(tmp_path / "three", Shape(rounds=3), "seed=2")
    labels = [each.label for each in read_runs([tmp_path / "one", tmp_path / "two"])]
    assert labels == ["feddiv, seed 1", "feddiv, seed 2"]
    labels = [each.label for each in read_runs([tmp_path / "two", tmp_path / "three"])]
    assert labels == ["feddiv, two", "feddiv, three"]


def test_a_run_that_has_not_ended_tells_what_it_has(tmp_path: Path) -> None:
    folder = made_run(tmp_path / "a", ended=False)
    with (folder / "rounds.jsonl").open("a") as file:
        file.write('{"turn": 9, "round": 9, "test_ac')  # a line that is being written
    (record,) = read_runs([folder])
    assert not record.ended
    assert len(record.rounds) == 8
    assert record.accuracy["best"] == 0.9 - 0.6 / 8
    assert record.classes == ["0", "1", "2", "3"]


def test_a_run_that_goes_on_after_its_end_has_not_ended(tmp_path: Path) -> None:
    folder = made_run(tmp_path / "a")
    config = folder / "config.toml"
    config.write_text(config.read_text().replace("rounds = 8", "rounds = 20"))
    (record,) = read_runs([folder])
    assert not record.ended
    assert record.assessment == {}


def test_a_run_of_an_earlier_version(tmp_path: Path) -> None:
    shutil.copytree(BEGUN, tmp_path / "old")
    (record,) = read_runs([tmp_path / "old"])
    assert record.rounds
    assert record.draw is not None


def test_a_method_that_would_have_to_be_imported_is_not(tmp_path: Path) -> None:
    folder = made_run(tmp_path / "a")
    config = folder / "config.toml"
    config.write_text(config.read_text().replace('name = "feddiv"', 'name = "evil.module:Mine"'))
    (record,) = read_runs([folder])
    assert record.label.startswith("Mine")


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("config.toml", "rounds =", "cannot be read"),
        ("config.toml", "rounds = 3", "names no method"),
        ("rounds.jsonl", "[1]\n", "is damaged"),
        ("clients.jsonl", "{\n", "is damaged"),
        ("summary.json", "[]", "is damaged"),
        ("assessment.npz", "PK", "assessment"),
        ("draw.npz", "PK", "draw"),
    ],
)
def test_damaged_files_are_refused_in_one_line(
    tmp_path: Path, file: str, content: str, said: str
) -> None:
    folder = made_run(tmp_path / "a", Shape(rounds=2))
    (folder / file).write_text(content)
    with pytest.raises(UserError, match=said) as caught:
        read_runs([folder])
    assert "\n" not in str(caught.value)


def test_a_journal_that_is_no_file_or_never_ends_a_line(tmp_path: Path) -> None:
    folder = made_run(tmp_path / "a", Shape(rounds=2))
    journal = folder / "clients.jsonl"
    with journal.open("wb") as file:
        file.truncate(1 << 40)  # a hole: nothing is on the disk
    with pytest.raises(UserError, match="line 1 is longer than"):
        read_runs([folder])
    journal.unlink()
    os.mkfifo(journal)
    with pytest.raises(UserError, match="pipe or a device"):
        read_runs([folder])


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    for folder, said in ((tmp_path, "holds no run"), (tmp_path / "none", "no such folder")):
        with pytest.raises(UserError, match=said):
            read_runs([folder])


def test_numbers_that_are_none_are_not_there(tmp_path: Path) -> None:
    assert [number(each) for each in (1, 0.5, True, "1", None, float("nan"), 10**400)] == [
        1.0, 0.5, None, None, None, None, None,
    ]  # fmt: skip
    folder = made_run(tmp_path / "a", Shape(rounds=2))
    line = {"round": "third", "test_accuracy": [], "filter": 3, "scores": {"low": "x"}}
    with (folder / "rounds.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")
    (record,) = read_runs([folder])
    assert record.spent[-1] == 0.0
    assert record.column("filter.f1")[-1] is None

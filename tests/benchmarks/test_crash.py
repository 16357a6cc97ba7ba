"""The crash benchmark crashes for real, and finds what came out differently."""

import json
from pathlib import Path
from random import Random

import pytest
from crash import Failure, Trials, crashed
from crash_targets import TARGETS, RunTarget

pytestmark = pytest.mark.slow


def test_a_download_is_killed_and_ends_as_if_nothing_had_happened() -> None:
    outcome = crashed("data get", "killed, torn last line", 1, 0, mount=False)
    assert (outcome.trials, outcome.same, outcome.failures) == (1, 1, [])
    assert outcome.crashes >= 1


def test_a_file_that_cannot_grow_is_told_in_one_line() -> None:
    outcome = crashed("data get", "full disk", 1, 0, mount=False)
    assert outcome.failures == []


def test_a_difference_is_a_failure(tmp_path: Path) -> None:
    target = TARGETS["data get"]
    with target.ready():
        trials = Trials(target, Random(1), tmp_path)
        trials.measure()
        trials.reference["tiny-py/train"] = "another"
        with pytest.raises(Failure, match="ended with another tiny-py/train"):
            trials.trial("killed", tmp_path / "it")


def test_a_torn_journal_keeps_what_it_had_before(tmp_path: Path) -> None:
    target, file = RunTarget(), tmp_path / "rounds.jsonl"
    lines = [json.dumps({"turn": turn}) for turn in range(3)]
    file.write_text("\n".join(lines) + "\n")
    whole = file.read_bytes()
    target.tear(tmp_path, Random(0))
    assert whole.startswith(file.read_bytes())
    assert file.read_bytes() != whole
    (tmp_path / "summary.json").write_text("{}")  # of a run that has ended everything is safe
    file.write_bytes(whole)
    target.tear(tmp_path, Random(0))
    assert file.read_bytes() == whole

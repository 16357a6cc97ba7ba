"""The crash benchmark crashes for real, and finds what came out differently."""

import json
import os
from dataclasses import asdict
from pathlib import Path
from random import Random

import pytest
from crash import Child, Failure, Outcome, Trials, begun, crashed
from crash_targets import TARGETS, RunTarget

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("target", ["data get", "encoding"])
@pytest.mark.parametrize("kind", ["killed, torn last line", "full disk"])
def test_what_was_crashed_ends_as_if_nothing_had_happened(target: str, kind: str) -> None:
    outcome = crashed(Outcome(target, kind), 1, mount=False)
    assert (outcome.trials, outcome.same, outcome.failures) == (1, 1, [])
    assert outcome.crashes >= 1


def test_trials_go_on_where_they_were_stopped() -> None:
    told: list[Outcome] = []
    before = [asdict(Outcome("data get", "killed", 5, trials=9, crashes=11, same=9))]
    outcome = begun(before, "data get", "killed", seed=5, times=10)
    crashed(outcome, 10, mount=False, keep=told.append)
    assert [(kept.trials, kept.same) for kept in told] == [(10, 10)]
    assert told[0].crashes in (12, 13)
    assert crashed(told[0], 10, mount=False) is told[0]
    for seed, times in ((4, 10), (5, 8)):  # another measurement
        assert begun(before, "data get", "killed", seed, times).trials == 0
    failed = [{**before[0], "failures": ["trial 3: hangs"]}]
    assert begun(failed, "data get", "killed", 5, 10).trials == 0


def test_vectors_that_were_told_to_be_done_and_are_gone_are_a_failure(tmp_path: Path) -> None:
    target, folder = TARGETS["encoding"], tmp_path / "it"
    with target.ready():
        trials = Trials(target, tmp_path)
        trials.finish(Child(target.job(folder), tmp_path / "log"))
        (keys,) = folder.rglob("keys")
        os.truncate(keys, 0)
        with pytest.raises(Failure, match="5000 vectors were told to be done, 0 are left"):
            trials.finish(Child(target.job(folder), tmp_path / "log"))


def test_a_difference_is_a_failure(tmp_path: Path) -> None:
    target = TARGETS["data get"]
    with target.ready():
        trials = Trials(target, tmp_path, Random(1))
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

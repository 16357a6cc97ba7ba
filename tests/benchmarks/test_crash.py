"""The crash benchmark crashes for real, and finds what came out differently."""

import json
import os
import signal
import time
from dataclasses import asdict
from pathlib import Path
from random import Random

import pytest
from crash import Child, Failure, Outcome, Trials, begun, crashed
from crash_review import ReviewTarget
from crash_run import RunTarget
from crash_targets import TARGETS

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("target", ["data get", "encoding", "sweep", "review"])
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


def test_decisions_that_were_told_to_be_saved_and_are_gone_are_a_failure(tmp_path: Path) -> None:
    target, folder = ReviewTarget(), tmp_path / "it"
    with target.ready():
        trials = Trials(target, tmp_path)
        target.prepare(folder)
        trials.finish(Child(target.job(folder), tmp_path / "log"))
        file = folder / "corrections.csv"
        lines = file.read_bytes().splitlines(keepends=True)
        file.write_bytes(b"".join(lines[:-1]))
        with pytest.raises(Failure, match="160 rows were told to be saved"):
            trials.finish(Child(target.job(folder), tmp_path / "log"))


def test_a_process_that_outlives_a_kill_is_a_failure(tmp_path: Path) -> None:
    def leaves_one_behind() -> None:
        if os.fork() == 0:
            os.setsid()
            (tmp_path / "pid").write_text(str(os.getpid()))
        time.sleep(60)

    child = Child(leaves_one_behind, tmp_path / "log")
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        time.sleep(0.01)
    with pytest.raises(Failure, match="a process of it lives on"):
        child.kill(patience=0.1)
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


@pytest.mark.parametrize(
    ("said", "tells"),
    [
        ("feddiv: rows.jsonl: No space left on device", True),
        ("feddiv: 1 of the runs failed:\n  fedavg: disk is full", True),
        ("feddiv: 2 of the runs failed:\n  fedavg: disk is full", False),
        ("feddiv: 1 of the runs failed:\n  fedavg: it said nothing", False),
        ("Traceback (most recent call last): No space left on device", False),
        ("", False),
    ],
)
def test_a_sweep_tells_a_full_disk_for_each_run(said: str, tells: bool) -> None:
    assert TARGETS["sweep"].tells(said) == tells


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

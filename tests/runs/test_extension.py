"""More rounds for a run that was begun: the same bits as if they had been asked for at first."""

import json
import os
import random
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.runs.test_checkpoint import TINY, Enough, StopAfter, assert_same_run
from tests.runs.test_kills import ended, group_is_gone, in_a_group_of_its_own

import feddiv
from feddiv.config.reading import load_experiment
from feddiv.core.errors import UserError
from feddiv.methods.registry import METHODS
from feddiv.reports.picture import PICTURE
from feddiv.runs.extension import can_go_on, check_extension, with_rounds

pytestmark = pytest.mark.slow  # whole runs or processes

SMALL: dict[str, Any] = {
    "rounds": 3,
    "clients.count": 2,
    "clients.fraction": 1.0,
    "warmup.iterations": 1,
    "data.images": 60,
    "train.epochs": 1,
    "model.name": "mlp",
    "against": [],
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[int, feddiv.Run]:
    """The same run with six rounds and with nine, each with a rival."""
    folder, settings = tmp_path_factory.mktemp("runs"), TINY | {"against": ["fedavg"]}
    return {
        rounds: feddiv.run(
            "quickstart", settings | {"rounds": rounds}, out=folder / str(rounds), workers=0
        )
        for rounds in (6, 9)
    }


@pytest.fixture
def six(runs: dict[int, feddiv.Run], tmp_path: Path) -> Path:
    """A copy of the run with six rounds."""
    return Path(shutil.copytree(runs[6].folder, tmp_path / "run"))


def contents(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_a_finished_run_and_its_rivals_go_on(six: Path, runs: dict[int, feddiv.Run]) -> None:
    picture = (six / PICTURE).read_bytes()
    run = feddiv.resume(six, ["rounds=9"], workers=0)
    assert_same_run(six, runs[9])
    assert_same_run(six / "against" / "fedavg", runs[9].against["fedavg"])
    assert run.summary["rounds"] == run.against["fedavg"].summary["rounds"] == 9
    for place in (six, six / "against" / "fedavg"):
        assert load_experiment(place / "config.toml").rounds == 9
    assert (six / PICTURE).read_bytes() != picture
    again = feddiv.resume(six, {"rounds": 9})
    assert again.summary == run.summary  # and read, not repeated


def test_only_the_line_of_the_rounds_changes(six: Path) -> None:
    before = (six / "config.toml").read_text().splitlines()
    feddiv.resume(six, {"rounds": 7}, workers=0)
    after = (six / "config.toml").read_text().splitlines()
    assert [(a, b) for a, b in zip(before, after, strict=True) if a != b] == [
        ("rounds = 6", "rounds = 7")
    ]


def test_a_stopped_run_is_given_more_rounds_or_fewer(
    tmp_path: Path, runs: dict[int, feddiv.Run]
) -> None:
    for rounds in (9, 6):
        folder, asked = tmp_path / str(rounds), TINY | {"rounds": 15 - rounds}
        with pytest.raises(Enough):
            feddiv.run("quickstart", asked, out=folder, watcher=StopAfter(3), workers=0)
        run = feddiv.resume(folder, {"rounds": rounds}, workers=0)
        assert run.summary["model_hash"] == runs[rounds].summary["model_hash"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (["rounds=5"], r"rounds=5: the run in .* has done 6; ask for more"),
        (["rounds=1"], r"warmup.iterations=1 takes 2 of rounds=1"),
        (["train.lr=0.5"], r"train.lr=0.5: the run in .* was begun with 0.03"),
        (["rounds=9", "seed=1"], r"seed=1: the run in .* was begun with 0"),
        (["round=9"], r"did you mean rounds\?"),
        (["rounds"], r"'rounds' is not key=value"),
    ],
)
def test_what_is_refused_changes_nothing(six: Path, changes: list[str], said: str) -> None:
    before = contents(six)
    with pytest.raises(UserError, match=said):
        feddiv.resume(six, changes, workers=0)
    assert contents(six) == before


def test_how_often_checkpoints_are_written_may_change_too(six: Path) -> None:
    run = feddiv.resume(six, ["rounds=7", "checkpoint.seconds=100"], workers=0)
    assert (run.summary["rounds"], run.experiment.checkpoint.seconds) == (7, 100)


def test_a_finished_run_without_a_checkpoint_stays_what_it_is(six: Path) -> None:
    shutil.rmtree(six / "checkpoint")
    before = contents(six)
    with pytest.raises(UserError, match="ended with fewer and has no checkpoint to go on from"):
        feddiv.resume(six, {"rounds": 9}, workers=0)
    assert contents(six) == before


# Methods that plan by the number of rounds


@pytest.mark.parametrize("name", METHODS)
def test_more_rounds_of_every_method_are_the_same_bits_or_are_refused(
    name: str, tmp_path: Path
) -> None:
    settings, folder = {**SMALL, "method.name": name}, tmp_path / "run"
    feddiv.run("quickstart", settings, out=folder, workers=0)
    if name == "fedcorr":  # of 3 rounds it has 1 of fine-tuning, of 4 it has 2
        with pytest.raises(UserError, match=r"fedcorr plans its stages by the number of rounds"):
            feddiv.resume(folder, {"rounds": 4}, workers=0)
        return
    longer = feddiv.resume(folder, {"rounds": 4}, workers=0)
    straight = feddiv.run("quickstart", {**settings, "rounds": 4}, out=tmp_path / "4", workers=0)
    assert longer.summary["model_hash"] == straight.summary["model_hash"]


@pytest.mark.parametrize(
    ("name", "planned"),
    [
        ("fedcorr", "its stages"),
        ("dividemix", "its stages"),
        ("fedrn", "its stages"),
        ("rofl", r"method\.trusted_after"),
        ("jointopt", r"method\.labels_after"),
    ],
)
def test_shares_of_the_rounds(name: str, planned: str) -> None:
    begun = load_experiment("quickstart", [f"method.name={name}", "rounds=30"])
    wanted = load_experiment("quickstart", [f"method.name={name}", "rounds=60"])
    assert not can_go_on(begun, 60)
    with pytest.raises(UserError, match=f"rounds=60: {name} plans {planned} by the number of r"):
        check_extension(begun, wanted, 20, 20, Path("run"))
    check_extension(
        begun, wanted, 0, 0, Path("run")
    )  # before its first round it may be planned anew


def test_labels_that_would_have_moved_in_the_only_round_are_planned_by_the_rounds() -> None:
    settings = ["method.name=jointopt", "warmup.iterations=0"]
    begun, wanted = (load_experiment("quickstart", [*settings, f"rounds={n}"]) for n in (1, 8))
    with pytest.raises(UserError, match=r"jointopt plans method\.labels_after"):
        check_extension(begun, wanted, 1, 1, Path("run"))


def test_rounds_that_leave_nothing_to_do_are_refused() -> None:
    begun, same = (load_experiment("quickstart", [f"rounds={n}"]) for n in (33, 20))
    done = 4 + 12  # turns: four of warm-up, worth two rounds each
    with pytest.raises(UserError, match="rounds=20: the run in run has done 20; ask for more"):
        check_extension(begun, same, done, done, Path("run"))
    check_extension(begun, same, done - 1, done, Path("run"))  # its last turn is under way


def test_a_rival_that_cannot_go_on_stops_the_run_before_anything_is_changed(
    tmp_path: Path,
) -> None:
    feddiv.run("quickstart", SMALL | {"against": ["fedcorr"]}, out=tmp_path / "run", workers=0)
    before = contents(tmp_path / "run")
    with pytest.raises(UserError, match=r"fedcorr plans .* the run in .*against/fedcorr has done"):
        feddiv.resume(tmp_path / "run", {"rounds": 4}, workers=0)
    assert contents(tmp_path / "run") == before


# Stops on the way


@pytest.mark.parametrize("file", ["config.toml", "000008-000000.safetensors"])
def test_a_stop_while_it_is_extended_loses_nothing(
    six: Path, runs: dict[int, feddiv.Run], monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    """The disk is full when one of these is written; 8 is the turn after the third new round."""

    def full(path: Path, *rest: object) -> None:
        raise OSError(f"no space for {path}")

    with monkeypatch.context() as patched:
        if file == "config.toml":
            patched.setattr("feddiv.runs.extension.write_text", full)
        else:
            patched.setattr("feddiv.runs.checkpoint.Checkpoints.write", full)
        with pytest.raises(OSError, match="no space"):
            feddiv.resume(six, {"rounds": 9}, workers=0)
    assert json.loads((six / "summary.json").read_text()) == runs[6].summary
    asked = load_experiment(six / "config.toml").rounds
    assert asked == (6 if file == "config.toml" else 9)
    assert feddiv.resume(six, workers=0).summary["model_hash"] == runs[asked].summary["model_hash"]
    assert feddiv.resume(six, {"rounds": 9}, workers=0).summary["rounds"] == 9
    assert_same_run(six, runs[9])


def test_it_is_killed_again_and_again_while_it_is_extended(
    six: Path, runs: dict[int, feddiv.Run]
) -> None:
    rng, kills, status = random.Random(3), 0, None
    while status is None:
        child = in_a_group_of_its_own(lambda: feddiv.resume(six, {"rounds": 9}, workers=0))
        status = ended(child, rng.uniform(0.02, 0.3) if kills < 8 else 120)
        if status is None:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            kills += 1
            assert group_is_gone(child)
    assert status == 0
    assert kills >= 2
    assert_same_run(six, runs[9])
    assert_same_run(six / "against" / "fedavg", runs[9].against["fedavg"])


def test_a_rival_follows_when_the_stop_came_after_the_run_itself(
    six: Path, runs: dict[int, feddiv.Run]
) -> None:
    with pytest.raises(Enough):  # in the second of the rival's three new rounds
        feddiv.resume(six, {"rounds": 9}, watcher=StopAfter(5), workers=0)
    assert load_experiment(six / "against" / "fedavg" / "config.toml").rounds == 9
    feddiv.resume(six, workers=0)
    assert_same_run(six / "against" / "fedavg", runs[9].against["fedavg"])


def test_a_config_without_a_line_of_rounds_is_refused() -> None:
    assert with_rounds("seed = 1\nrounds = 6\n[a]\nrounds = 2\n", 9, Path("c")) == (
        "seed = 1\nrounds = 9\n[a]\nrounds = 2\n"
    )
    with pytest.raises(UserError, match="has no line that says the number of rounds"):
        with_rounds("seed = 1\n[a]\nrounds = 2\n", 9, Path("c"))

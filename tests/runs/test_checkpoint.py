"""Checkpoints: what they hold, and which are refused."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import feddiv
from feddiv.core.errors import UserError
from feddiv.core.files import load_tensors
from feddiv.federation.simulation import Simulation
from feddiv.methods.contract import Reply
from feddiv.runs.checkpoint import Checkpoints, Standing
from feddiv.runs.journal import Seen
from feddiv.runs.loop import Cut
from feddiv.runs.replies import Tally
from feddiv.runs.run_folder import RunFolder
from feddiv.runs.start_and_resume import Watcher

pytestmark = pytest.mark.slow

STANDING = Standing({"rounds.jsonl": 7}, 1.5)


@dataclass(frozen=True)
class State:
    net: dict[str, torch.Tensor]
    totals: np.ndarray
    step: int


class Clients:
    """As much of a federation as a checkpoint asks for."""

    def save(self) -> dict[str, torch.Tensor]:
        return {"arena": torch.arange(5, dtype=torch.uint8)}

    def files(self) -> list[str]:
        return []


def cut(turn: int) -> Cut:
    state = State({"w": torch.full((3,), float(turn))}, np.arange(2.0), turn)
    seen = Seen(Reply(4, 10, metrics={"divergence": 0.25}), {"clean": 3, "kept": [1, 2]})
    return Cut(state, turn, (Tally((seen,), (9,), 100, 200),), 2.5)


@pytest.fixture
def checkpoints(tmp_path: Path) -> Checkpoints:
    return Checkpoints(tmp_path, "this run", State)


def write(checkpoints: Checkpoints, *turns: int) -> list[Path]:
    for turn in turns:
        checkpoints.write(cut(turn), STANDING, Clients())  # type: ignore[arg-type]
    return checkpoints.found()


def test_it_comes_back_as_it_was(checkpoints: Checkpoints) -> None:
    write(checkpoints, 3)
    back = checkpoints.latest(pytest.fail)
    assert back is not None
    assert torch.equal(back.cut.state.net["w"], torch.full((3,), 3.0))
    assert back.cut.state.totals.tolist() == [0, 1]
    assert (back.cut.turn, back.cut.tallies, back.cut.seconds) == (3, cut(3).tallies, 2.5)
    assert back.standing == STANDING
    assert back.clients["arena"].tolist() == [0, 1, 2, 3, 4]


def test_none_before_the_first(checkpoints: Checkpoints) -> None:
    assert checkpoints.latest(pytest.fail) is None


def test_the_last_two_are_kept_and_nothing_half_written(checkpoints: Checkpoints) -> None:
    write(checkpoints, 9, 10, 11, 100)
    names = sorted(file.name for file in checkpoints.folder.iterdir())
    assert names == ["000011-000001.safetensors", "000100-000001.safetensors"]


def flip(file: Path, place: float) -> None:
    content = bytearray(file.read_bytes())
    content[int(len(content) * place)] ^= 0x10
    file.write_bytes(bytes(content))


DAMAGE = {
    "cut in half": lambda file: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2]),
    "empty": lambda file: file.write_bytes(b""),
    "text": lambda file: file.write_text("hello"),
    "a flipped bit at the end": lambda file: flip(file, 0.999),
    "a flipped bit in the header": lambda file: flip(file, 0.3),
    "another safetensors": lambda file: save_file({"x": torch.zeros(2)}, file),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_one_is_named_and_the_one_before_is_used(
    checkpoints: Checkpoints, name: str
) -> None:
    newest, older = write(checkpoints, 4, 5)
    DAMAGE[name](newest)
    refused: list[str] = []
    back = checkpoints.latest(refused.append)
    assert back is not None
    assert (back.cut.turn, back.file) == (4, older)
    assert len(refused) == 1
    assert refused[0].startswith(str(newest))
    assert newest.with_name(newest.name + ".refused").exists()
    write(checkpoints, 5)
    for file in checkpoints.found():
        file.write_bytes(b"")
    with pytest.raises(UserError, match=r"no checkpoint can be used: .*000005.*000004"):
        checkpoints.latest(refused.append)
    assert len(checkpoints.found()) == 2  # nothing is moved where nothing can be used


def test_refused_ones_do_not_push_out_those_that_follow(checkpoints: Checkpoints) -> None:
    write(checkpoints, 1)
    whole = checkpoints.found()[0]
    for turn in (4, 5):
        (checkpoints.folder / f"{turn:06d}-000001.safetensors").write_bytes(b"foreign")
    assert checkpoints.latest(lambda reason: None).file == whole  # type: ignore[union-attr]
    write(checkpoints, 2, 3)
    assert [file.name[:6] for file in checkpoints.found()] == ["000003", "000002"]
    refused = sorted(file.name for file in checkpoints.folder.glob("*.refused"))
    assert refused == ["000004-000001.safetensors.refused", "000005-000001.safetensors.refused"]


def test_one_of_another_run_is_refused(checkpoints: Checkpoints, tmp_path: Path) -> None:
    write(checkpoints, 4)
    other = Checkpoints(tmp_path, "another run", State)
    with pytest.raises(UserError, match="belongs to another run"):
        other.latest(lambda reason: None)


def test_one_of_another_version_is_refused(
    checkpoints: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(checkpoints, 4)
    monkeypatch.setattr("feddiv.runs.checkpoint.VERSION", 3)
    with pytest.raises(UserError, match="has version 2, this is 3"):
        checkpoints.latest(lambda reason: None)


# A real run

TINY: dict[str, Any] = {
    "rounds": 6,
    "warmup.iterations": 1,
    "data.images": 120,
    "train.epochs": 1,
    "clients.count": 4,
    "checkpoint.seconds": 0.0,
    "against": [],
}


class Enough(Exception):
    """Stops a run as a bug would."""


class StopAfter(Watcher):
    def __init__(self, rounds: int) -> None:
        self.left, self.refusals, self.before = rounds, [], 0

    def round(self, line: dict[str, Any]) -> None:
        self.left -= 1
        if self.left == 0:
            raise Enough

    def refused(self, reason: str) -> None:
        self.refusals.append(reason)

    def goes_on(self, rounds: Any) -> None:
        self.before = len(rounds)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> feddiv.Run:
    return feddiv.run("quickstart", TINY, out=tmp_path_factory.mktemp("whole") / "run", workers=0)


def records(folder: Path, name: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / name).read_text().splitlines()]
    return [{k: v for k, v in line.items() if not k.endswith("seconds")} for line in lines]


def assert_same_run(folder: Path, whole: feddiv.Run) -> None:
    for name in ("rounds.jsonl", "clients.jsonl"):
        assert records(folder, name) == records(whole.folder, name)
    summary = json.loads((folder / "summary.json").read_text())
    assert summary | {"seconds": 0} == whole.summary | {"seconds": 0}
    ours, theirs = (load_tensors(path / "best.safetensors")[0] for path in (folder, whole.folder))
    assert all(torch.equal(value, theirs[key]) for key, value in ours.items())


def stopped(folder: Path, rounds: int) -> None:
    with pytest.raises(Enough):
        feddiv.run("quickstart", TINY, out=folder, watcher=StopAfter(rounds), workers=0)


@pytest.mark.parametrize("workers", [0, 1, 2, 3])
def test_the_same_bits_for_any_number_of_workers(
    tmp_path: Path, whole: feddiv.Run, workers: int
) -> None:
    feddiv.run("quickstart", TINY, out=tmp_path / "run", workers=workers)
    assert_same_run(tmp_path / "run", whole)


@pytest.mark.parametrize("rounds", [1, 3])
def test_resume_goes_on_bit_for_bit(tmp_path: Path, whole: feddiv.Run, rounds: int) -> None:
    stopped(tmp_path / "run", rounds)
    watcher = StopAfter(99)
    run = feddiv.resume(tmp_path / "run", workers=2, watcher=watcher)
    assert_same_run(tmp_path / "run", whole)
    assert run.summary["model_hash"] == whole.summary["model_hash"]
    assert len(run.rounds) == len(whole.rounds)
    assert watcher.before < len(whole.rounds)
    assert len(json.loads((run.folder / "environment.json").read_text())["resumed"]) == 1


def test_a_finished_run_is_read_and_not_repeated(tmp_path: Path, whole: feddiv.Run) -> None:
    shutil.copytree(whole.folder, tmp_path / "run")
    before = (tmp_path / "run" / "rounds.jsonl").read_bytes()
    run = feddiv.resume(tmp_path / "run")
    assert run.summary == whole.summary
    assert (tmp_path / "run" / "rounds.jsonl").read_bytes() == before


def test_lines_after_the_last_checkpoint_are_cut_off(tmp_path: Path, whole: feddiv.Run) -> None:
    folder = tmp_path / "run"
    stopped(folder, 3)
    with (folder / "rounds.jsonl").open("a") as file:
        file.write('{"half a li')
    with (folder / "clients.jsonl").open("a") as file:
        file.write('{"turn": 99}\n')
    feddiv.resume(folder, workers=0)
    assert_same_run(folder, whole)


def test_resume_without_any_checkpoint_starts_again(tmp_path: Path, whole: feddiv.Run) -> None:
    folder = tmp_path / "run"
    stopped(folder, 2)
    shutil.rmtree(folder / "checkpoint")
    feddiv.resume(folder, workers=0)
    assert_same_run(folder, whole)


def test_resume_uses_the_checkpoint_before_a_damaged_one(tmp_path: Path, whole: feddiv.Run) -> None:
    folder = tmp_path / "run"
    stopped(folder, 3)
    newest = max((folder / "checkpoint").glob("*.safetensors"))
    flip(newest, 0.9)
    watcher = StopAfter(99)
    feddiv.resume(folder, workers=0, watcher=watcher)
    assert len(watcher.refusals) == 1
    assert newest.name in watcher.refusals[0]
    assert_same_run(folder, whole)


def test_what_it_is_compared_with_is_resumed_too(tmp_path: Path) -> None:
    settings = TINY | {"against": ["fedavg"]}
    whole = feddiv.run("quickstart", settings, out=tmp_path / "whole", workers=0)
    for number, rounds in enumerate((2, len(whole.rounds) + 2)):  # in the one, in the other
        folder = tmp_path / str(number)
        with pytest.raises(Enough):
            feddiv.run("quickstart", settings, out=folder, watcher=StopAfter(rounds), workers=0)
        run = feddiv.resume(folder, workers=0)
        assert run.summary["model_hash"] == whole.summary["model_hash"]
        rival, expected = run.against["fedavg"], whole.against["fedavg"]
        assert rival.summary["model_hash"] == expected.summary["model_hash"]


def test_another_config_is_another_run(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    stopped(folder, 2)
    config = folder / "config.toml"
    config.write_text(config.read_text().replace("lr = 0.03", "lr = 0.02"))
    with pytest.raises(UserError, match="belongs to another run"):
        feddiv.resume(folder)
    assert not (folder / "summary.json").exists()


def test_a_stop_between_commit_and_cut_does_not_save_a_torn_cut(
    tmp_path: Path, whole: feddiv.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, commits = tmp_path / "run", 0
    commit = Simulation.commit

    def torn(self: Simulation) -> None:
        nonlocal commits
        commit(self)
        commits += 1
        if commits == 6:
            raise Enough

    with monkeypatch.context() as patched:
        patched.setattr(Simulation, "commit", torn)
        settings = TINY | {"checkpoint.seconds": 3600.0}
        with pytest.raises(Enough):
            feddiv.run("quickstart", settings, out=folder, workers=0)
    run = feddiv.resume(folder, workers=0)
    assert run.summary["model_hash"] == whole.summary["model_hash"]
    assert records(folder, "clients.jsonl") == records(whole.folder, "clients.jsonl")


def test_a_journal_that_lost_lines_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    stopped(folder, 3)
    (folder / "rounds.jsonl").write_text("")
    with pytest.raises(UserError, match=r"rounds.jsonl: is shorter than the checkpoint says"):
        feddiv.resume(folder)
    assert (folder / "rounds.jsonl").read_text() == ""
    RunFolder.existing(folder).unlock()  # what failed holds no lock


def test_a_damaged_journal_or_summary_is_named(tmp_path: Path, whole: feddiv.Run) -> None:
    folder = tmp_path / "run"
    stopped(folder, 3)
    lines = (folder / "rounds.jsonl").read_bytes()
    (folder / "rounds.jsonl").write_bytes(bytes(50) + lines[50:])
    with pytest.raises(UserError, match=r"rounds.jsonl: is damaged"):
        feddiv.resume(folder)
    shutil.copytree(whole.folder, tmp_path / "whole")
    (tmp_path / "whole" / "summary.json").write_text('{"method":')
    with pytest.raises(UserError, match=r"summary.json: is damaged"):
        feddiv.resume(tmp_path / "whole")


def test_a_rival_that_was_killed_before_it_had_begun(tmp_path: Path) -> None:
    settings = TINY | {"against": ["fedavg"]}
    whole = feddiv.run("quickstart", settings, out=tmp_path / "run", workers=0)
    rival = whole.against["fedavg"].folder
    for file in rival.iterdir():
        if file.name not in ("draw.npz", "environment.json") and file.is_file():
            file.unlink()
    shutil.rmtree(rival / "checkpoint")
    again = feddiv.resume(tmp_path / "run", workers=0)
    expected = whole.against["fedavg"].summary["model_hash"]
    assert again.against["fedavg"].summary["model_hash"] == expected


def test_evaluation_every_few_rounds(tmp_path: Path, whole: feddiv.Run) -> None:
    settings = TINY | {"evaluation.every": 3}
    run = feddiv.run("quickstart", settings, out=tmp_path / "run", workers=0)
    measured = [line["turn"] for line in run.rounds if line["test_accuracy"] is not None]
    assert measured == [3, 5]  # one turn of warm-up, then four: the last one always counts
    assert run.summary["model_hash"] == whole.summary["model_hash"]
    assert run.summary["last_test_accuracy"] == whole.summary["last_test_accuracy"]

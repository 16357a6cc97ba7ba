"""Who may write to a run's folder, and what counts as a run."""

import shutil
from pathlib import Path

import pytest
from tests.runs.test_checkpoint import TINY, stopped, whole

import feddiv
from feddiv.core.errors import UserError
from feddiv.runs.prepare import prepare
from feddiv.runs.run_folder import RunFolder

pytestmark = pytest.mark.slow

__all__ = ["whole"]  # a fixture


def test_only_one_process_writes_to_a_run(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    stopped(folder, 1)
    held = RunFolder.existing(folder)
    with pytest.raises(UserError, match="another process is writing"):
        feddiv.resume(folder)
    held.unlock()
    feddiv.resume(folder, workers=0)


@pytest.mark.parametrize("name", ["config.toml", "draw.npz"])
def test_a_folder_without_a_run(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match=r"holds no run that was begun \(config.toml is missing"):
        feddiv.resume(tmp_path)
    stopped(tmp_path / "run", 1)
    (tmp_path / "run" / name).unlink()
    with pytest.raises(UserError, match=f"{name} is missing"):
        feddiv.resume(tmp_path / "run")


def test_two_runs_do_not_share_a_folder(tmp_path: Path) -> None:
    first, second = RunFolder(tmp_path / "run"), RunFolder(tmp_path / "run")
    experiment = feddiv.load_experiment("quickstart", TINY)
    draw = prepare(experiment).draw
    first.begin(experiment, draw)
    with pytest.raises(UserError, match="another process is writing"):
        second.begin(experiment, draw)
    second.discard()
    assert (tmp_path / "run" / "config.toml").exists()
    first.unlock()
    with pytest.raises(UserError, match="already holds a run"):
        second.begin(experiment, draw)


def test_a_run_killed_before_it_had_begun_can_be_run_again(
    tmp_path: Path, whole: feddiv.Run
) -> None:
    (tmp_path / "run").mkdir()
    shutil.copy(whole.folder / "draw.npz", tmp_path / "run")
    feddiv.run("quickstart", TINY, out=tmp_path / "run", workers=0)
    (tmp_path / "other").mkdir()
    shutil.copy(whole.folder / "draw.npz", tmp_path / "other")
    with pytest.raises(UserError, match=r"holds another draw.npz"):
        feddiv.run("quickstart", TINY | {"seed": 5}, out=tmp_path / "other", workers=0)
    assert [file.name for file in (tmp_path / "other").iterdir()] == ["draw.npz"]


def test_no_more_workers_than_clients(tmp_path: Path, whole: feddiv.Run) -> None:
    run = feddiv.run("quickstart", TINY, out=tmp_path / "run", workers=10**20)
    assert run.summary["model_hash"] == whole.summary["model_hash"]

"""A run is killed again and again, and ends with the bits of one that never was."""

import json
import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import feddiv

pytestmark = pytest.mark.slow

SETTINGS: dict[str, Any] = {
    "rounds": 40,
    "warmup.iterations": 2,
    "data.images": 160,
    "train.epochs": 1,
    "clients.count": 4,
    "checkpoint.seconds": 0.0,
    "against": [],
}


@pytest.fixture(scope="module")
def model_hash(tmp_path_factory: pytest.TempPathFactory) -> str:
    out = tmp_path_factory.mktemp("whole") / "run"
    return str(feddiv.run("quickstart", SETTINGS, out=out, workers=0).summary["model_hash"])


def in_a_group_of_its_own(job: Callable[[], object]) -> int:
    """Fork a process that does the job; torch is imported already, so it starts at once."""
    child = os.fork()
    if child == 0:
        os.setsid()
        code = 1
        with suppress(BaseException):
            job()
            code = 0
        os._exit(code)
    return child


def ended(child: int, seconds: float) -> int | None:
    """The exit status if the child ends within this time."""
    patience = time.monotonic() + seconds
    while time.monotonic() < patience:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return status
        time.sleep(0.005)
    return None


def descendants(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children]


def rounds_written(folder: Path) -> int:
    file = folder / "rounds.jsonl"
    return file.read_bytes().count(b"\n") if file.exists() else 0


def group_is_gone(group: int) -> bool:
    patience = time.monotonic() + 10
    while time.monotonic() < patience:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


def shared_segments() -> set[str]:
    folder = Path("/dev/shm")
    return {file.name for file in folder.iterdir()} if folder.is_dir() else set()


def test_the_whole_group_is_killed_at_random_moments(tmp_path: Path, model_hash: str) -> None:
    folder, rng, kills, segments = tmp_path / "run", random.Random(7), 0, shared_segments()
    while not (folder / "summary.json").exists():
        begun = (folder / "config.toml").exists()
        child = in_a_group_of_its_own(
            (lambda: feddiv.resume(folder, workers=2))
            if begun
            else (lambda: feddiv.run("quickstart", SETTINGS, out=folder, workers=2))
        )
        if kills < 12:
            status = ended(child, rng.uniform(0.02, 0.6))
        else:
            status = ended(child, 120)
            assert status == 0
        if status is None:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            kills += 1
            assert group_is_gone(child), "orphans"
            if not begun and (folder.exists() and not (folder / "config.toml").exists()):
                for file in folder.iterdir():  # killed before there was a run to go on with
                    file.unlink()
    assert kills >= 10
    assert json.loads((folder / "summary.json").read_text())["model_hash"] == model_hash
    lines = [json.loads(line) for line in (folder / "rounds.jsonl").read_text().splitlines()]
    assert [line["turn"] for line in lines] == list(range(1, len(lines) + 1))
    assert shared_segments() <= segments


def test_single_workers_are_killed_at_random_moments(tmp_path: Path, model_hash: str) -> None:
    folder, rng, kills = tmp_path / "run", random.Random(8), 0
    child = in_a_group_of_its_own(lambda: feddiv.run("quickstart", SETTINGS, out=folder, workers=2))
    status, before = None, -1
    while status is None:
        status = ended(child, rng.uniform(0.05, 0.4))
        # On a busy machine a visit may take longer than that, and three deaths would end the run.
        gone_on = rounds_written(folder) > before
        if status is None and gone_on and (workers := descendants(child)):
            with suppress(ProcessLookupError):
                before = rounds_written(folder)
                os.kill(rng.choice(workers), signal.SIGKILL)
                kills += 1
    assert status == 0
    assert kills >= 3
    assert json.loads((folder / "summary.json").read_text())["model_hash"] == model_hash
    assert group_is_gone(child)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_polite_stop_ends_with_a_checkpoint(tmp_path: Path, model_hash: str, number: int) -> None:
    folder = tmp_path / "run"
    settings = SETTINGS | {"checkpoint.seconds": 3600.0}  # none but the one at the stop
    child = in_a_group_of_its_own(lambda: feddiv.run("quickstart", settings, out=folder, workers=2))
    for stop in range(2):
        rounds = folder / "rounds.jsonl"
        before = rounds.stat().st_size if stop else 0
        while not rounds.exists() or rounds.stat().st_size <= before:
            assert ended(child, 0.01) is None
        os.killpg(child, number)  # as a terminal or a scheduler does: to workers too
        assert ended(child, 30) is not None
        assert group_is_gone(child)
        assert len(list((folder / "checkpoint").glob("*.safetensors"))) >= 1
        child = in_a_group_of_its_own(lambda: feddiv.resume(folder, workers=2))
    assert ended(child, 120) == 0
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["model_hash"] == model_hash

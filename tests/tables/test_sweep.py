"""Sweeps as people run them: real processes that fail, are stopped, and are killed."""

import json
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import feddiv
from feddiv.core.errors import UserError
from feddiv.core.files import Lock
from feddiv.data import Draw
from feddiv.data.corrections import Decision, DecisionKind, append
from feddiv.tables.rows import read_rows
from feddiv.tables.run_process import Start
from feddiv.tables.sweep import _locked
from feddiv.tables.sweep_file import SweepJob

TINY = {
    "rounds": 3,
    "warmup": {"iterations": 1},
    "data": {"images": 160},
    "clients": {"count": 4},
    "train": {"epochs": 1},
}
TIME = "2026-01-01T00:00:00Z"
LONG = {**TINY, "rounds": 60, "checkpoint": {"seconds": 0.0}}


def file_of(folder: Path, **keys: Any) -> Path:
    import tomli_w

    tree = {"settings": ["quickstart"], "methods": ["fedavg"], "seeds": [0], **keys}
    file = folder / "mine.toml"
    file.write_text(tomli_w.dumps(tree))
    return file


class Log(feddiv.SweepWatcher):
    def __init__(self) -> None:
        self.begun: list[str] = []

    def started(self, job: SweepJob, again: bool) -> None:
        self.begun.append(job.title)


@pytest.mark.slow
def test_a_run_with_other_corrections_is_another_run(tmp_path: Path) -> None:
    decided = tmp_path / "corrections.csv"
    append(decided, [])
    data = {**TINY["data"], "corrections": [str(decided)]}
    file = file_of(tmp_path, settings={"seen": {"base": "quickstart", **TINY, "data": data}})
    out = tmp_path / "out"
    (first,) = feddiv.sweep(file, out=out).rows
    assert not feddiv.sweep(file, out=out, dry_run=True).plan.left
    draw = Draw.load(next(out.rglob("draw.npz")))
    name, label = _a_sample(out)
    append(decided, [Decision(name, label, DecisionKind.CONFIRM, label, "me", TIME)])
    assert len(feddiv.sweep(file, out=out, dry_run=True).plan.left) == 1
    (second,) = feddiv.sweep(file, out=out).rows
    assert first.corrections == draw.corrections != second.corrections
    assert second.summary["corrections"]["confirmed"] == 1
    assert [each.corrections for each in read_rows(out / "rows.jsonl")] == [
        first.corrections,
        second.corrections,
    ]
    assert not feddiv.sweep(file, out=out, dry_run=True).plan.left
    decided.unlink()
    assert len(feddiv.sweep(file, out=out, dry_run=True).plan.left) == 1


def _a_sample(out: Path) -> tuple[str, str]:
    run = next(out.rglob("draw.npz")).parent
    (audit, *_) = feddiv.audit(run)
    label = Draw.load(run / "draw.npz").given[Draw.load(run / "draw.npz").parts[0][0]]
    return audit.name(0), audit.classes[int(label)]


@pytest.mark.slow
def test_a_run_that_fails_does_not_stop_the_others_and_no_run_is_repeated(tmp_path: Path) -> None:
    data = tmp_path / "mine.npz"
    settings = {
        "broken": {"base": "own", "data": {"source": "npz", "path": str(data)}},
        "whole": {"base": "quickstart", **TINY},
    }
    file = file_of(tmp_path, settings=settings)
    log, out = Log(), tmp_path / "out"
    swept = feddiv.sweep(file, out=out, watcher=log)
    assert log.begun == ["broken, fedavg, seed 0", "whole, fedavg, seed 0"]
    ((job, reason),) = swept.failed.items()
    assert job.setting == "broken"
    assert "mine.npz" in reason
    assert "exit code 2" in reason
    assert [row.setting for row in swept.rows] == ["whole"]
    assert [each.name for each in swept.folders.values()] == [
        swept.plan.done.popitem()[0].folder.name
    ]
    (row,) = read_rows(out / "rows.jsonl")
    straight = feddiv.run("quickstart", _flat(TINY) | {"against": [], "method.name": "fedavg"},
                          out=tmp_path / "straight", workers=0)  # fmt: skip
    for key in ("model_hash", "draw", "best_test_accuracy"):
        assert row.summary[key] == straight.summary[key]
    again = Log()
    assert len(feddiv.sweep(file, out=out, watcher=again).failed) == 1
    assert again.begun == ["broken, fedavg, seed 0"]
    assert len(read_rows(out / "rows.jsonl")) == 1
    # As if it had crashed between the end of a run and its row: that is read from the folder.
    (out / "rows.jsonl").unlink()
    (ended,) = (out / "runs" / "whole").iterdir()
    log_file = Path(f"{ended}.log")
    log_file.touch()
    alone = {"settings": {"whole": settings["whole"]}, "seeds": [0]}
    late = Log()
    kept = feddiv.sweep({**alone, "methods": ["fedavg"]}, out=out, watcher=late)
    assert late.begun == []
    assert not log_file.exists()
    assert [each.summary for each in kept.rows] == [row.summary]
    # Or between its results and its page: that is made, and no round again.
    (home,) = kept.folders.values()
    rounds = (home / "rounds.jsonl").read_bytes()
    (home / "report.html").unlink()
    kept.file.unlink()
    kept = feddiv.sweep({**alone, "methods": ["fedavg"]}, out=out, watcher=late)
    assert late.begun == ["whole, fedavg, seed 0"]
    assert (home / "report.html").is_file()
    assert (home / "rounds.jsonl").read_bytes() == rounds
    assert [each.summary for each in kept.rows] == [row.summary]
    # Data that have changed since: two draws are not compared.
    line = json.loads(kept.file.read_text())
    kept.file.write_text(json.dumps({**line, "summary": {**line["summary"], "draw": "other"}}))
    both = feddiv.sweep({**alone, "methods": ["fedavg", "fedavg-mixup"]}, out=out)
    assert ["its draw is not that of fedavg" in reason for reason in both.failed.values()] == [True]


def test_a_run_that_no_disk_had_room_for_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its log lies on the same disk, and is empty."""
    start = Start((), (), str(tmp_path / "run"))
    start.log.touch()
    assert start.said() == "it said nothing"
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=4096))
    assert start.said() == "it said nothing, and its disk is full (0.0 MB are free)"
    start.log.write_text("feddiv: error: no such thing\n")
    assert start.said() == "no such thing"


def _flat(tree: dict[str, Any]) -> dict[str, Any]:
    from feddiv.core.dotted import flat

    return flat(tree)


@pytest.mark.slow
def test_stopped_then_killed_a_sweep_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    file = file_of(tmp_path, options=LONG, keep="rows", rows="kept.jsonl")
    out = tmp_path / "out"
    for number, code in ((signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)):
        process, before = _start(file, out), _rounds(out)
        _until(lambda before=before: _rounds(out) >= before + 5, "five more rounds")
        runs = _children(process.pid)
        assert len(runs) == 1
        process.send_signal(number)
        said = process.communicate(timeout=60)[1]
        assert process.returncode == code
        _until(lambda runs=runs: not any(map(_alive, runs)), "the end of the run itself")
        if number == signal.SIGINT:
            last = said.strip().splitlines()[-1]
            assert last.startswith("feddiv: stopped; runs under way keep their checkpoints")
            assert f"go on with: feddiv sweep {file}" in last
    assert not (tmp_path / "kept.jsonl").exists()
    log = Log()
    swept = feddiv.sweep(file, out=out, watcher=log)
    assert log.begun == ["quickstart, fedavg, seed 0"]
    (row,) = read_rows(tmp_path / "kept.jsonl")
    assert len(row.test_accuracy) == 60
    straight = feddiv.run("quickstart", _flat(LONG) | {"against": [], "method.name": "fedavg"},
                          out=tmp_path / "straight", workers=0)  # fmt: skip
    assert row.summary["model_hash"] == straight.summary["model_hash"]
    assert row.test_accuracy == [round(each, 4) for each in straight.column("test_accuracy")]
    assert swept.folders == {}, "keep=rows: the folder goes when its row is kept"
    assert not list(out.rglob("config.toml"))


def _start(file: Path, out: Path) -> "subprocess.Popen[str]":
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
        "from feddiv.cli import main; main()"
    )
    command = [sys.executable, "-c", code, "sweep", str(file), "--out", str(out)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _rounds(out: Path) -> int:
    return sum(len(each.read_bytes().splitlines()) for each in out.rglob("rounds.jsonl"))


def _until(done: Any, what: str) -> None:
    patience = time.monotonic() + 120
    while not done():
        assert time.monotonic() < patience, f"waited in vain for {what}"
        time.sleep(0.05)


def _children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_sweeps_with_nothing_to_begin_do_not_let_two_others_in(tmp_path: Path) -> None:
    # Each takes the empty folder away when it ends, while others are about to lock it.
    inside: list[int] = []
    most: list[int] = []

    def begins_nothing(number: int) -> None:
        for _ in range(100):
            try:
                with _locked(tmp_path / "out"):
                    inside.append(number)
                    most.append(len(inside))
                    time.sleep(0)
                    inside.remove(number)
            except UserError:
                continue

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(begins_nothing, range(8)))
    assert max(most) == 1


def test_a_folder_that_nobody_can_make(tmp_path: Path) -> None:
    if not Path("/proc/self").exists():
        pytest.skip("needs Linux")
    with pytest.raises(UserError, match=r"^--out /proc/nothing: cannot be written \(No such file"):
        feddiv.sweep(file_of(tmp_path), out="/proc/nothing")


def test_two_sweeps_do_not_share_a_folder(tmp_path: Path) -> None:
    file, out = file_of(tmp_path), tmp_path / "out"
    out.mkdir()
    lock = Lock.of(out)
    assert lock is not None
    with pytest.raises(UserError, match=r"out: another sweep is running in this folder$"):
        feddiv.sweep(file, out=out)
    lock.release()
    assert list(out.iterdir()) == []


def test_a_plan_writes_nothing(tmp_path: Path) -> None:
    swept = feddiv.sweep(file_of(tmp_path), out=tmp_path / "out", dry_run=True)
    assert len(swept.plan.left) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("keys", "said"), [({"jobs": 0}, "--jobs 0"), ({"out": "."}, "--out '.'")])
def test_options_that_cannot_be(tmp_path: Path, keys: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        feddiv.sweep(file_of(tmp_path), **keys)

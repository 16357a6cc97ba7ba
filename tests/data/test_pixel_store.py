import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.data.pictures import Listener, class_folders, load, picture

from feddiv.core import disk_room, interrupts, processes
from feddiv.core.errors import UserError
from feddiv.data.images.decode import BLOCK
from feddiv.data.images.listing import Files
from feddiv.data.images.pixel_store import PixelStore
from feddiv.data.published.places import cache_folder
from feddiv.data.watcher import DataWatcher

COUNT = 2 * BLOCK + 10
RENAME = os.replace


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    """Images whose red is their number, and a cache of this test's own."""
    monkeypatch.setenv("FEDDIV_CACHE", str(tmp_path / "cache"))
    names = tuple(f"{number:03}.png" for number in range(COUNT))
    for number, name in enumerate(names):
        picture(tmp_path / "data" / name, (number, 7, 0), (4, 4))
    return Files(tmp_path / "data", names)


def test_pixels_are_mapped_and_in_order(files: Files) -> None:
    store = PixelStore(files, 4, 3)
    assert not store.ready
    assert store.missing_bytes == COUNT * 48
    listener = Listener()
    store.make(listener, "images")
    assert store.ready
    assert store.missing_bytes == 0
    found = store.opened()
    assert found.inputs.shape == (COUNT, 4, 4, 3)
    assert found.inputs[:, 0, 0, 0].tolist() == list(range(COUNT))
    assert found.kept.tolist() == list(range(COUNT))
    assert found.counts.sum() == COUNT * 48
    assert found.counts[1, 7] == COUNT * 16
    assert [done for _, done, _ in listener.steps] == [BLOCK, 2 * BLOCK, COUNT]
    assert sorted(path.name for path in store.folder.iterdir()) == ["about.json", "pixels"]


def test_unreadable_images_leave_no_gap(files: Files) -> None:
    gone = [0, 70, 71, COUNT - 1]
    for row in gone:
        files.content(row).write_text("no image")
    store = PixelStore(files, 4, 3)
    store.make(DataWatcher(), "images")
    found = store.opened()
    expected = [row for row in range(COUNT) if row not in gone]
    assert found.inputs[:, 0, 0, 0].tolist() == found.kept.tolist()
    assert sorted(found.kept.tolist()) == expected
    moved = [place for place, row in enumerate(found.kept) if place != row]
    assert moved == gone[:3], "only gaps are filled"
    assert sorted(found.unreadable) == gone
    assert found.counts.sum() == len(expected) * 48


def test_a_kill_while_gaps_are_closed_costs_nothing(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.content(5).write_text("no image")
    store = PixelStore(files, 4, 3)
    with monkeypatch.context() as broken:
        broken.setattr(
            os, "replace", lambda *paths: 1 / 0 if "pixels" in str(paths) else RENAME(*paths)
        )
        with pytest.raises(ZeroDivisionError):
            store.make(DataWatcher(), "images")
    assert not store.ready
    listener = Listener()
    store.make(listener, "images")
    assert listener.steps == [], "nothing is decoded again"
    found = store.opened()
    assert found.inputs[:, 0, 0, 0].tolist() == found.kept.tolist()
    assert len(found.kept) == COUNT - 1


@pytest.mark.parametrize(
    "problem", [PermissionError(13, "Denied"), OSError(5, "I/O"), MemoryError()]
)
def test_a_machine_that_fails_says_nothing_about_the_image(
    files: Files, problem: Exception
) -> None:
    class Failing(Files):
        def content(self, row: int) -> Path:
            if row == 70:
                raise problem
            return super().content(row)

    store = PixelStore(Failing(files.root, files.names), 4, 3)
    with pytest.raises(UserError, match=r"070\.png: cannot be read now \((Denied|I/O|out of mem)"):
        store.make(DataWatcher(), "images")
    assert not store.ready
    store = PixelStore(files, 4, 3)
    store.make(DataWatcher(), "images")
    assert store.opened().unreadable == {}


def test_a_disk_that_does_not_answer_deletes_no_store(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = PixelStore(files, 4, 3)
    store.make(DataWatcher(), "images")

    def fails(path: Path, *more: object) -> str:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(Path, "read_text", fails)
        with pytest.raises(UserError, match=r"cannot be read \(Input/output error\)"):
            store.make(DataWatcher(), "images")
    assert store.ready


def test_a_file_that_may_not_be_looked_at(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "stat", fails)
    with pytest.raises(UserError, match=r"000\.png: cannot be read \(Permission denied\)"):
        list(files.identities())


def test_a_store_is_named_after_what_is_in_it(files: Files) -> None:
    names = {PixelStore(files, 4, 3).folder, PixelStore(files, 5, 3).folder}
    names |= {PixelStore(files, 4, 1).folder, PixelStore(files.chosen(np.arange(9)), 4, 3).folder}
    os.utime(files.content(3), ns=(1, 1))
    names.add(PixelStore(files, 4, 3).folder)
    files.content(3).unlink()
    names.add(PixelStore(files, 4, 3).folder)
    assert len(names) == 6


def test_a_damaged_store_is_made_again(files: Files) -> None:
    store = PixelStore(files, 4, 3)
    store.make(DataWatcher(), "images")
    with (store.folder / "pixels").open("r+b") as file:
        file.truncate(100)
    assert not store.ready
    store.make(DataWatcher(), "images")
    assert store.opened().inputs[:, 0, 0, 0].tolist() == list(range(COUNT))
    (store.folder / "about.json").write_text("{")
    assert not store.ready


def test_what_a_killed_process_has_done_is_kept(files: Files) -> None:
    """As it would be found: the first block and the notes on it are on the disk."""
    store = PixelStore(files, 4, 3)
    store.make(DataWatcher(), "images")
    about = json.loads((store.folder / "about.json").read_text())
    (store.folder / "about.json").unlink()
    (store.folder / "pixels").rename(store.folder / "pixels.part")
    half = np.zeros((3, 256), dtype=int)
    (store.folder / "progress.json").write_text(
        json.dumps(about | {"done": BLOCK, "counts": half.tolist()})
    )
    with (store.folder / "pixels.part").open("r+b") as file:
        file.seek(BLOCK * 48)
        file.write(bytes(48))
    listener = Listener()
    store.make(listener, "images")
    assert listener.steps[0][1] == 2 * BLOCK
    found = store.opened()
    assert found.inputs[:, 0, 0, 0].tolist() == list(range(COUNT))
    assert found.counts.sum() == (COUNT - BLOCK) * 48  # the notes on the rest were added


KILLED = """
import sys, time
from pathlib import Path
from feddiv.data.images import pixel_store
from feddiv.data.images.listing import Files
from feddiv.data.watcher import DataWatcher

class Slow(DataWatcher):
    def prepares(self, what, done, total):
        print(done, flush=True)
        time.sleep(60)

pixel_store.SAVED_EVERY = 0.0
root = Path(sys.argv[1])
files = Files(root, tuple(sorted(path.name for path in root.iterdir())))
pixel_store.PixelStore(files, 4, 3).make(Slow(), "images")
"""


@pytest.mark.slow
def test_a_kill_in_the_middle_and_a_second_process(files: Files) -> None:
    first = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(files.root)], stdout=subprocess.PIPE, text=True
    )
    assert first.stdout is not None
    assert first.stdout.readline().strip() == str(BLOCK)
    store = PixelStore(files, 4, 3)
    assert not store.ready

    class Impatient(Listener):
        def note(self, line: str) -> None:
            super().note(line)
            first.send_signal(signal.SIGKILL)

    listener = Impatient()
    started = time.monotonic()
    store.make(listener, "images")
    assert first.wait() == -signal.SIGKILL
    first.stdout.close()
    assert time.monotonic() - started < 30
    assert listener.notes == ["another process is reading the same images: waiting for it"]
    assert store.opened().inputs[:, 0, 0, 0].tolist() == list(range(COUNT))
    assert sorted(path.name for path in store.folder.iterdir()) == ["about.json", "pixels"]


def test_a_decoder_that_kills_its_process(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    class Deadly(Files):
        def content(self, row: int) -> Path:
            if row == BLOCK + 3:
                os._exit(1)
            return super().content(row)

    monkeypatch.setattr(processes, "usable_cores", lambda: 2)
    with pytest.raises(UserError, match=r"a process died while it decoded"):
        PixelStore(Deadly(files.root, files.names), 4, 3).make(DataWatcher(), "images")
    store = PixelStore(files, 4, 3)
    store.make(DataWatcher(), "images")  # nothing of it stands in the way
    assert store.opened().inputs[:, 0, 0, 0].tolist() == list(range(COUNT))


@pytest.mark.slow
@pytest.mark.parametrize("cores", [1, 2])
def test_a_read_that_blocks_can_be_stopped(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: int
) -> None:
    os.mkfifo(tmp_path / "pipe")

    class Blocking(Files):
        def content(self, row: int) -> Path:
            if row == 3:
                (tmp_path / "pipe").read_bytes()
            return super().content(row)

    monkeypatch.setattr(processes, "usable_cores", lambda: cores)
    before = set(multiprocessing.active_children())
    timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGTERM))
    store = PixelStore(Blocking(files.root, files.names), 4, 3)
    with interrupts.handled():
        timer.start()
        with pytest.raises(interrupts.Stopped), interrupts.allowed():
            store.make(DataWatcher(), "images")
    assert set(multiprocessing.active_children()) == before
    store = PixelStore(files, 4, 3)
    store.make(DataWatcher(), "images")  # nothing of it stands in the way
    assert store.opened().inputs[:, 0, 0, 0].tolist() == list(range(COUNT))


def test_one_process_and_several_give_the_same(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for cores in (1, 3):
        monkeypatch.setenv("FEDDIV_CACHE", str(tmp_path / f"cache{cores}"))
        monkeypatch.setattr(processes, "usable_cores", lambda cores=cores: cores)
        store = PixelStore(files, 5, 3)
        store.make(DataWatcher(), "images")
        found.append(store.opened())
    assert torch.equal(found[0].inputs, found[1].inputs)
    assert np.array_equal(found[0].counts, found[1].counts)


def test_a_disk_that_is_short_is_said_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDDIV_CACHE", str(tmp_path / "cache"))
    root = class_folders(tmp_path / "data")

    class Usage:
        free = 2_000

    monkeypatch.setattr(disk_room.shutil, "disk_usage", lambda path: Usage)
    with pytest.raises(
        UserError, match=r"data\.size=8: 20 images take 0\.0 MB .* FEDDIV_CACHE .* data\.size"
    ):
        load(source="folder", path=root)
    assert not (tmp_path / "cache").exists()


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("FEDDIV_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(UserError, match="cannot be written"):
        load(source="folder", path=class_folders(tmp_path / "data"))


def test_mapped_samples_are_neither_copied_nor_moved(tmp_path: Path) -> None:
    data = load(source="folder", path=class_folders(tmp_path))
    here = data.on(torch.device("cpu"))
    assert here.train.inputs.data_ptr() == data.train.inputs.data_ptr()
    far = data.on(torch.device("meta"))
    assert far.train.inputs.device.type == "cpu"
    assert far.train.labels.device.type == "meta"
    before = data.train.inputs.clone()
    data.train.let_go()
    assert torch.equal(data.train.inputs, before)


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDDIV_CACHE", "/some/where")
    assert cache_folder() == Path("/some/where")
    monkeypatch.delenv("FEDDIV_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache_folder() == Path("/xdg/feddiv")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # to be ignored, says the standard
    assert cache_folder() == Path.home() / ".cache" / "feddiv"

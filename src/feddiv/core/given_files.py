"""Files that somebody else names: regular ones only, and no larger than such a file can be.

A pipe would be waited for, a device never ends, and a name may be no name at all. All of that is
an `OSError` here, as for a file that is not there, so that a caller has one thing to catch.
"""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO, Final

from feddiv.core.errors import UserError

SMALL: Final = 4 << 20  # bytes of a config, a header or a list of names
PIECE: Final = 1 << 16  # bytes that are read at a time where a file has more than it says
_NO_WAITING: Final = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def open_regular(path: Path) -> BinaryIO:
    """The file, opened to be read; links are followed, pipes and devices refused."""
    try:
        descriptor = os.open(path, os.O_RDONLY | _NO_WAITING)
    except ValueError:
        raise OSError(errno.EINVAL, "a name cannot have a zero byte in it", str(path)) from None
    try:
        _check_regular(os.fstat(descriptor).st_mode, path)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def check_regular(path: Path) -> None:
    """Refuse what is no regular file, for readers that open it by its name."""
    open_regular(path).close()


def _check_regular(mode: int, path: Path) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "is a folder", str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "is a pipe or a device and no file", str(path))


def read_given(path: Path, most: int = SMALL) -> bytes:
    """All of a file that has no more than so many bytes."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        content = b"" if size > most else _up_to(file, most, size)
    if max(size, len(content)) > most:
        raise OSError(errno.EFBIG, f"has more than {most:,} bytes", str(path))
    return content


def _up_to(file: BinaryIO, most: int, size: int) -> bytes:
    """All of a file, or more than `most` bytes of one that grows or does not say how large it is.

    `read(most)` would ask for so much memory whatever the file's size.
    """
    pieces, count, step = [], 0, size + 1
    while count <= most and (piece := file.read(min(step, most + 1 - count))):
        pieces.append(piece)
        count, step = count + len(piece), PIECE
    return b"".join(pieces)


def check_writable(path: Path, setting: str) -> None:
    """Refuse to put a file in the place of what is none: a folder, a pipe, a device."""
    if not path.name:
        raise UserError(f"{setting} {str(path)!r}: name a file")
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise UserError(f"{setting} {path}: cannot be written ({error.strerror})") from None
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a pipe or a device and no file"
        raise UserError(f"{setting} {path}: is {kind}")


def check_no_link(path: Path, setting: str) -> None:
    """Refuse to write through a link: a folder that came from somebody else would then decide
    which file elsewhere is changed."""
    try:
        found = os.lstat(path)
    except OSError:
        return  # it is not there, or whoever writes to it says why that is impossible
    if stat.S_ISLNK(found.st_mode):
        raise UserError(
            f"{setting} {path}: is a link, and no file elsewhere is written to; put what it leads "
            "to in its place"
        )
    if stat.S_ISREG(found.st_mode) and found.st_nlink > 1:
        raise UserError(
            f"{setting} {path}: has a second name somewhere (a hard link), where it would be "
            "changed too; put a copy in its place"
        )


def at_home(path: str | Path) -> Path:
    """The path with the home folder that `~` stands for."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise UserError(f"{path}: there is no home folder of that user") from None

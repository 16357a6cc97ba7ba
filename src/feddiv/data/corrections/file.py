"""corrections.csv on the disk: rows are only ever added, and what was added is on the disk."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from feddiv.core.errors import UserError
from feddiv.core.files import Lock, settle
from feddiv.core.given_files import check_no_link, check_writable, read_given
from feddiv.core.spreadsheets import cell
from feddiv.data.corrections.decision import COLUMNS, Decision
from feddiv.data.corrections.subject import Subject

CORRECTIONS: Final = "corrections.csv"
MOST: Final = 1 << 28  # bytes
LONGEST: Final = 1 << 17  # bytes of one row, whose names have a limit of their own
_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)
HEADER: Final = (",".join(COLUMNS) + "\n").encode()
MARK: Final = "\ufeff".encode()  # spreadsheets put it before UTF-8


@dataclass(frozen=True)
class DecisionFile:
    """Decisions in the order of the file, and lines for the reader about the file itself."""

    decisions: tuple[Decision, ...]
    notes: tuple[str, ...] = ()


def read(path: Path, subject: Subject | None = None) -> DecisionFile:
    """All decisions of a file; a last line that was written by half is left out, and noted.

    With a `subject` they have to be about it, and come in its own names; without, names are as the
    file has them. UserError for anything else.
    """
    return read_in_turn([path], subject)


def read_in_turn(paths: Sequence[Path], subject: Subject | None = None) -> DecisionFile:
    """The same of several files, each made after those before it."""
    decisions: list[Decision] = []
    notes: list[str] = []
    earlier: dict[str, set[str]] = {}
    for path in paths:
        try:
            content = read_given(path, MOST)
        except OSError as error:
            raise UserError(f"{path}: cannot be read ({error.strerror or error})") from None
        whole, tail = _parted(content, path)
        if tail:
            notes.append(f"{path}: its last line is written by half and not used: {_shown(tail)}")
        for line, row in _rows(whole, path):
            try:
                decision = Decision.of_row(row)
                if subject is not None:
                    before = earlier.setdefault(cell(decision.sample), set())
                    decision = subject.own(decision, before)
                    before.add(decision.label)
            except ValueError as problem:
                raise UserError(f"{path}, line {line}: {problem}") from None
            decisions.append(decision)
    return DecisionFile(tuple(decisions), tuple(notes))


def append(path: Path, decisions: Iterable[Decision]) -> str | None:
    """Add decisions in one write and wait until they are on the disk.

    A last line that was written by half is cut off first; then a line says so. Processes that
    append to one file take turns, also with those that merge into it. What `read` would not take
    is refused, and nothing is written.
    """
    new = list(decisions)
    for decision in new:
        try:
            decision.check()
        except ValueError as problem:
            raise UserError(f"{path}: cannot be added: {problem}") from None
    check_writable(path, "corrections")
    check_no_link(path, "corrections")
    rows = text_of(new).encode()
    try:
        fresh = not path.exists()
        with in_turn(path):  # opened after it: what was there before may have been replaced
            descriptor = os.open(path, os.O_RDWR | os.O_APPEND | _NO_LINK)
            with os.fdopen(descriptor, "r+b", buffering=0) as file:
                note = _add(file, path, rows)
        if fresh:
            settle(path.parent)
    except OSError as error:
        raise UserError(
            f"{path}: cannot be written ({error.strerror or error}); the decision is not saved"
        ) from None
    return note


@contextmanager
def in_turn(path: Path) -> Iterator[None]:
    """Nobody else appends to this file or replaces it meanwhile; it is there, empty if it is new.

    Where something fails, a new file that is still empty is taken away again. The lock is the
    file's own. Who waited for it may hold one that was replaced, and asks again.
    """
    fresh = not path.exists()
    while True:
        os.close(os.open(path, os.O_RDONLY | os.O_CREAT | _NO_LINK, 0o666))
        try:
            lock = Lock.of(path, wait=True)
        except FileNotFoundError:  # taken away since
            continue
        if lock is None or lock.is_of(path):
            break
        lock.release()
    try:
        yield
    except BaseException:
        with suppress(OSError):
            if fresh and not path.stat().st_size:
                path.unlink()
        raise
    finally:
        if lock is not None:
            lock.release()


def text_of(decisions: Iterable[Decision]) -> str:
    """Rows as the file has them, without the line of column names."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(decision.row() for decision in decisions)
    return text.getvalue()


def _add(file: io.FileIO, path: Path, rows: bytes) -> str | None:
    """Cut off what is written by half, then write all in one go, or nothing at all."""
    note, before = None, b""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    content = file.read(min(size, MOST + 1))
    whole, tail = _parted(content, path)
    if size + len(HEADER) + len(rows) > MOST:
        raise UserError(f"{path}: would have more than {MOST:,} bytes; nothing is added")
    if tail:
        size -= len(tail)
        file.truncate(size)
        note = f"{path}: its last line was written by half and is cut off: {_shown(tail)}"
    if not whole:
        before = HEADER
    else:
        _check_header(whole, path)
        before = b"" if whole.endswith(b"\n") else b"\n"
    left = before + rows
    try:
        while left:
            left = left[file.write(left) :]
        os.fsync(file.fileno())
    except OSError:  # a full disk takes some rows of an action, which is told not to be saved
        with suppress(OSError):
            file.truncate(size)
        raise
    return note


def _parted(content: bytes, path: Path) -> tuple[bytes, bytes]:
    """What is written as a whole, and what is left of a last row that is not.

    A row ends with a line's end outside of quotes. One that lacks only that is whole, too: by its
    time one can see that nothing else is missing.
    """
    end = content.rfind(b"\n") + 1
    open_quotes = content.count(b'"', 0, end) % 2
    while end and open_quotes and len(content) - end <= LONGEST:
        before = content.rfind(b"\n", 0, end - 1) + 1
        open_quotes = (open_quotes + content.count(b'"', before, end)) % 2
        end = before
    tail = content[end:]
    if not tail:
        return content, b""
    if len(tail) > LONGEST:
        raise UserError(f"{path}: is damaged (a quotation mark without its end)")
    if not end:
        start = content.removeprefix(MARK)
        if HEADER.startswith(start):
            return b"", content
        raise UserError(_no_header(path))
    try:
        [row] = csv.reader([tail.decode()], strict=True)
        Decision.of_row(row)
    except (ValueError, csv.Error):
        return content[:end], tail
    return content, b""


def _rows(content: bytes, path: Path) -> Iterable[tuple[int, list[str]]]:
    """(number of its last line, cells) of every row after the column names."""
    if not content:
        return
    _check_header(content, path)
    try:
        text = content.removeprefix(MARK).decode()
    except UnicodeDecodeError:
        raise UserError(f"{path}: is no text in UTF-8") from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    next(reader)
    try:
        for row in reader:
            if row:
                yield reader.line_num, row
    except csv.Error as error:
        raise UserError(f"{path}, line {reader.line_num}: is damaged ({error})") from None


def _check_header(content: bytes, path: Path) -> None:
    first = content.removeprefix(MARK).split(b"\n", 1)[0].rstrip(b"\r")
    if first != HEADER.rstrip(b"\n"):
        raise UserError(_no_header(path))


def _no_header(path: Path) -> str:
    return f"{path}: is no corrections file (its first line is not {','.join(COLUMNS)})"


def _shown(tail: bytes) -> str:
    return repr(tail[:60].decode(errors="replace"))

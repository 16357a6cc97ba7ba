"""Whether the files of a data set are all there and the published ones."""

import gzip
import hashlib
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, cast

from feddiv.data.published.benchmarks import CATALOGUE, Benchmark, Download, Piece
from feddiv.data.published.places import Place, cache_folder, folders_in, locate, places

_CHUNK: Final = 1 << 20


@dataclass(frozen=True)
class Copy:
    """A data set in a folder, and what is wrong with it, a line for each file."""

    benchmark: Benchmark
    place: Place
    folder: Path
    problems: tuple[str, ...]

    @property
    def whole(self) -> bool:
        """Nothing is missing and every checksum is right."""
        return not self.problems


def copies(benchmark: Benchmark) -> list[Copy]:
    """Every copy of the data set where runs look for it; the first is the one they use."""
    return [
        Copy(benchmark, place, folder, problems(benchmark, folder))
        for place in places()
        for folder in folders_in(place, benchmark)
        if not _of_others(benchmark, place, folder)
    ]


def _of_others(benchmark: Benchmark, place: Place, folder: Path) -> bool:
    """Files that lie in the data folder itself may be meant for a set with the same file names."""
    return folder == place.folder and namesake(benchmark, folder) is not None


def namesake(benchmark: Benchmark, folder: Path) -> Benchmark | None:
    """Another data set with the same file names that these files are of, by the smallest one."""
    smallest = min(benchmark.pieces, key=lambda piece: piece.size)
    for other in CATALOGUE.values():
        if other is not benchmark:
            theirs = [piece for piece in other.pieces if piece.name == smallest.name]
            if theirs and piece_problem(theirs[0], folder) is None:
                return other
    return None


def problems(benchmark: Benchmark, folder: Path) -> tuple[str, ...]:
    """What is wrong with the files of a data set."""
    found = (piece_problem(piece, folder) for piece in benchmark.pieces)
    return tuple(problem for problem in found if problem is not None)


def piece_problem(piece: Piece, folder: Path) -> str | None:
    """What is wrong with one file of a data set, if anything is."""
    file = locate(folder, piece.name)
    if file is None:
        return f"{piece.name} is missing"
    try:
        md5, size = hashlib.md5(usedforsecurity=False), 0
        with open_content(file) as content:
            while chunk := content.read(_CHUNK):
                md5.update(chunk)
                size += len(chunk)
                if size > piece.size:  # whatever follows, it is another file
                    return f"{file.name} is longer than the published file"
    except (OSError, EOFError, zlib.error) as error:
        return f"{file.name} cannot be read ({error})"
    if size < piece.size:
        return f"{file.name} is cut off, {size:,} of {piece.size:,} bytes"
    return None if md5.hexdigest() == piece.md5 else f"{file.name} has a wrong checksum"


def open_content(file: Path) -> IO[bytes]:
    """A file of a data set, unzipped while it is read."""
    return cast(IO[bytes], gzip.open(file)) if file.suffix == ".gz" else file.open("rb")


def is_published(file: Path, download: Download) -> bool:
    """Whether a file is the published one, by size and sha256."""
    if not file.is_file() or file.stat().st_size != download.size:
        return False
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest() == download.sha256


def unfinished(benchmark: Benchmark) -> int:
    """Bytes of a download of this data set that was stopped."""
    folder = cache_folder() if benchmark.archive else cache_folder() / benchmark.folder
    parts = (folder / f"{download.name}.part" for download in benchmark.downloads)
    return sum(part.stat().st_size for part in parts if part.is_file())

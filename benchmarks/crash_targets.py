"""What `crash.py` can crash: how it is begun and taken up again, and what has to come out of it.

A new part of feddiv that writes files and can be taken up again gets an entry in `TARGETS`.
"""

import hashlib
import json
import os
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np
from crash_contract import Fingerprint, Job, Target
from crash_encoding import EncodingTarget

sys.path.append(str(Path(__file__).parents[1]))  # for tests.web
from tests.web import Web, packed_benchmark, serving

import feddiv
from feddiv.core.archives import read_npz
from feddiv.core.errors import UserError
from feddiv.core.files import Unreadable, load_tensors
from feddiv.core.trees import assemble
from feddiv.runs.checkpoint import FOLDER, HEADER, Standing
from feddiv.runs.run_folder import JOURNALS, PICTURE

TINY = (
    *("quickstart", "rounds=12", "warmup.iterations=2", "data.images=160", "train.epochs=1"),
    *("clients.count=4", "data.test_images=100"),
)
TIMES = ("seconds", "evaluation_seconds")  # what may differ between two runs that are the same


class RunTarget(Target):
    """`feddiv run`, then `feddiv resume`."""

    def __init__(self, *settings: str, workers: int = 0) -> None:
        self.settings, self.workers = settings, workers

    @contextmanager
    def ready(self) -> Iterator[None]:
        """Everything that a run imports, so that moments of a run are hardly ever imports."""
        preset, *settings = TINY
        overrides = {"against": [], **tomllib.loads("\n".join(settings))}
        with TemporaryDirectory() as folder:
            feddiv.run(preset, overrides, out=Path(folder) / "run", workers=0)
        yield

    def job(self, folder: Path) -> Job:
        """The command as somebody types it."""
        from feddiv.cli import main

        common = ["--workers", str(self.workers), "--quiet"]
        if (folder / "config.toml").exists():
            return lambda: main(["resume", str(folder), *common])
        return lambda: main(["run", *TINY, *self.settings, "--out", str(folder), *common])

    def signs(self, folder: Path) -> object:
        """The folder; of a run that is taken up the note of that."""
        note = folder / "environment.json"
        begun = (folder / "config.toml").exists()
        return (folder.exists(), note.stat().st_mtime_ns if begun and note.exists() else 0)

    def result(self, folder: Path) -> Fingerprint:
        """Models, journals but for times, opinions on labels, and which files there are."""
        found: Fingerprint = {}
        for run in (folder, *sorted((folder / "against").glob("*"))):
            name = str(run.relative_to(folder))
            found[f"{name} files"] = " ".join(sorted(_names(run)))
            for file in ("model.safetensors", "best.safetensors", "draw.npz"):
                found[f"{name} {file}"] = hashlib.sha256((run / file).read_bytes()).hexdigest()
            for file in JOURNALS:
                found[f"{name} {file}"] = _journal(run / file)
            found[f"{name} assessment"] = _arrays(run / "assessment.npz")
        return found

    def tear(self, folder: Path, rng: Random) -> None:
        """Cut the last lines of the journals at a random byte, or add the beginning of one.

        What a checkpoint vouches for was on the disk before it, and so were all lines of a run
        that has its summary: a crash cannot tear these.
        """
        for run in (folder, *sorted((folder / "against").glob("*"))):
            if (run / "summary.json").exists():
                continue
            sure = _sure_bytes(run)
            for name in JOURNALS:
                file = run / name
                if not file.exists():
                    continue
                size, kept = file.stat().st_size, sure.get(name, 0)
                if size > kept:
                    os.truncate(file, rng.randrange(kept, size))
                else:
                    line = b'{"turn": 7, "round": 7, "stage": "train", "visits": 2}'
                    with file.open("ab") as opened:
                        opened.write(line[: rng.randrange(1, len(line))])


def _names(run: Path) -> Iterator[str]:
    """Of the files of a run; which checkpoints are its last two depends on the time it took."""
    for file in run.rglob("*"):
        kept = file.parent.name == FOLDER and file.suffix == ".safetensors"
        if file.name != PICTURE and not kept:
            yield file.name


def _journal(file: Path) -> str:
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    plain = [{key: line[key] for key in line if key not in TIMES} for line in lines]
    return hashlib.sha256(json.dumps(plain).encode()).hexdigest()


def _arrays(file: Path) -> str:
    digest = hashlib.sha256()
    for name, values in sorted(read_npz(file, "an assessment").items()):
        digest.update(name.encode() + np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()


def _sure_bytes(run: Path) -> dict[str, int]:
    """How far the journals were on the disk when the newest checkpoint was written."""
    for file in sorted((run / FOLDER).glob("*.safetensors"), reverse=True):
        try:
            header = load_tensors(file)[1]
        except Unreadable:
            continue
        standing: Standing = assemble(Standing, json.loads(header[HEADER])["standing"], {})
        return standing.journals
    return {}


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


TARGETS: dict[str, Target] = {
    "run": RunTarget("against=[]", "checkpoint.seconds=0"),
    "run, two workers": RunTarget("against=[]", "checkpoint.seconds=0.2", workers=2),
    "run with `against`": RunTarget("against=fedavg", "checkpoint.seconds=0.2"),
    "data get": DownloadTarget(),
    "encoding": EncodingTarget(),
}

"""Runs that can be crashed: what they leave does not tell."""

import hashlib
import json
import os
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np
from crash_contract import FILES, Fingerprint, Job, Target

import feddiv
from feddiv.core.archives import read_npz
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
            found[name + FILES] = " ".join(sorted(_names(run)))
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

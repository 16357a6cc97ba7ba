"""An encoding that can be crashed: no vector is lost that was told to be done."""

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import slow_encoder
from crash_contract import Fingerprint, Job, Target

from feddiv.core.errors import UserError
from feddiv.data.encoding.material import KEY
from feddiv.data.watcher import DataWatcher


class EncodingTarget(Target):
    """`data.encoder`: images become vectors in the cache, those that are there are not made again.

    Vectors that were told to be done must be there after a crash: else it counts as a failure.
    """

    notes: Path  # what was told, one file for each folder, on a disk of its own

    @contextmanager
    def ready(self) -> Iterator[None]:
        """Everything is imported, and there is a place for notes."""
        with TemporaryDirectory() as folder:
            self.notes = Path(folder)
            slow_encoder.stored()
            yield

    def job(self, folder: Path) -> Job:
        """What a run does before its first round."""
        if not folder.exists():
            self._note(folder).unlink(missing_ok=True)
        told = self._told(folder)
        note = self._note(folder)

        class Notes(DataWatcher):
            def prepares(self, what: str, done: int, total: int) -> None:
                note.write_text(json.dumps({**told, what: done}))
                told[what] = done

        def encode() -> None:
            os.environ["FEDDIV_CACHE"] = str(folder)
            try:
                if (kept := slow_encoder.stored()) < (done := sum(told.values())):
                    print(f"{done} vectors were told to be done, {kept} are left")
                    sys.exit(1)
                slow_encoder.encoded(Notes())
            except (UserError, OSError) as problem:
                print(f"feddiv: {problem}", file=sys.stderr)
                sys.exit(2)

        return encode

    def _note(self, folder: Path) -> Path:
        return self.notes / folder.parent.name

    def _told(self, folder: Path) -> dict[str, int]:
        note = self._note(folder)
        try:
            told: dict[str, int] = json.loads(note.read_text())
        except (OSError, ValueError):  # none yet, or killed in the middle of one
            return {}
        return told

    def signs(self, folder: Path) -> object:
        """The last thing that was told."""
        note = self._note(folder)
        return note.stat().st_mtime_ns if note.exists() else 0

    def result(self, folder: Path) -> Fingerprint:
        """The vectors of all images, in their order, and which files there are."""
        os.environ["FEDDIV_CACHE"] = str(folder)
        data = slow_encoder.encoded()
        found = {"files": " ".join(sorted(file.name for file in folder.rglob("*")))}
        for name, split in (("train", data.train), ("test", data.test)):
            assert split.places is not None
            vectors = split.inputs[split.places[:, 0]].numpy()
            found[name] = hashlib.sha256(vectors.tobytes()).hexdigest()
        return found

    def tear(self, folder: Path, rng: Random) -> None:
        """Cut or blank what nobody had made sure of.

        Those are keys that were not told to be done, and vectors that have no key: they settle
        before their keys are written.
        """
        for keys in folder.rglob("keys"):
            vectors, size = keys.with_name("vectors"), keys.stat().st_size
            _tear(vectors, -(-size // KEY) * 2 * slow_encoder.WIDTH, rng)
            _tear(keys, sum(self._told(folder).values()) * KEY, rng)


def _tear(file: Path, kept: int, rng: Random) -> None:
    size = file.stat().st_size
    if size > kept:
        os.truncate(file, rng.randrange(kept, size))
        if rng.random() < 0.5:
            os.truncate(file, size)  # grows again, by zeros

"""A run's folder: what it holds, and how it is written."""

import json
import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from importlib import metadata
from io import BytesIO
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from feddiv.config.experiment import Experiment, to_toml
from feddiv.core.archives import read_npz
from feddiv.core.arrays import Weights
from feddiv.core.errors import UserError
from feddiv.core.files import (
    Lock,
    Unreadable,
    json_object,
    read_json,
    read_regular,
    settle,
    write_bytes,
    write_json,
    write_text,
)
from feddiv.data import Draw
from feddiv.runs.links import check_own_files
from feddiv.runs.model import save_weights
from feddiv.runs.model_card import ModelCard

if TYPE_CHECKING:
    from feddiv.runs.prepare import Prepared

JOURNALS = ("rounds.jsonl", "clients.jsonl")
FILES = (
    "config.toml",
    "assessment.npz",
    "best.safetensors",
    "clients.jsonl",
    "draw.npz",
    "environment.json",
    "initial.safetensors",
    "model.safetensors",
    "rounds.jsonl",
    "summary.json",
    "tracking.json",
)
LARGEST = 1 << 26  # bytes of a JSON file that is read
LARGEST_JOURNAL = 1 << 32
PICTURE, REPORT = "picture.png", "report.html"  # made last of all, by feddiv.reports
EVENTS, TRACKING = "tensorboard", "tracking.json"  # of trackers, where the run has one
LEFTOVERS = ("draw.npz", "environment.json")  # written before config.toml
PACKAGES = ("feddiv", "torch", "numpy", "safetensors", "pydantic", "scikit-learn")


class RunFolder:
    """Where a run writes; it must not hold one already, unless it is opened to go on."""

    def __init__(self, path: Path, again: str = "") -> None:
        """`again` is how to go on with a run that is there already."""
        self.path, self.again = path, again or f"feddiv resume {path}"
        self._made: list[Path] = []
        self._mine = False  # whether this object began the run
        self._lock: Lock | None = None
        if path.exists() and not path.is_dir():
            raise UserError(f"--out {path}: is a file, not a folder")
        self._check_free()

    def _check_free(self) -> None:
        there = [name for name in FILES if os.path.lexists(self.path / name)]
        resumable = (self.path / "config.toml").exists()
        if not resumable:  # killed before config.toml was written: no run, and free
            there = [name for name in there if name not in LEFTOVERS]
        if there:
            hint = f", or go on with it: {self.again}" if resumable else ""
            raise UserError(
                f"--out {self.path}: already holds a run ({there[0]}); choose another folder{hint}"
            )

    @classmethod
    def new(cls, label: str, parent: Path = Path("runs")) -> "RunFolder":
        """A fresh folder under `runs/`, named after what runs and when."""
        stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
        path, again = parent / f"{label}-{stamp}", 1
        while path.exists():
            again += 1
            path = parent / f"{label}-{stamp}-{again}"
        return cls(path)

    @classmethod
    def existing(cls, path: Path) -> "RunFolder":
        """The folder of a run that was begun; nobody else may be writing to it."""
        for name in ("config.toml", "draw.npz"):
            if not (path / name).is_file():
                raise UserError(f"{path}: holds no run that was begun ({name} is missing)")
        folder = cls.reading(path)
        folder.lock()
        try:
            check_own_files(path, JOURNALS)
        except UserError:
            folder.unlock()
            raise
        return folder

    @classmethod
    def reading(cls, path: Path) -> "RunFolder":
        """The folder of a run that is only looked at; somebody may be writing to it."""
        folder = cls.__new__(cls)
        folder.path, folder.again = path, ""
        folder._made, folder._mine, folder._lock = [], False, None
        return folder

    def lock(self) -> None:
        """Keep other processes from writing to this run, until this one ends or unlocks."""
        self._lock = Lock.of(self.path)
        if self._lock is None:
            raise UserError(f"{self.path}: another process is writing to this run")

    def unlock(self) -> None:
        """Let others write."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def inside(self, *names: str) -> "RunFolder":
        """The folder of another run that belongs to this one."""
        return RunFolder(self.path.joinpath(*names))

    def begin(self, experiment: Experiment, draw: Draw) -> None:
        """Write what determines the run; config.toml last: where it is, all else is."""
        made = [path for path in (self.path, *self.path.parents) if not path.exists()]
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self.lock()
            self._check_free()  # somebody else may have begun here since
            check_own_files(self.path, JOURNALS)
            old = self.path / "draw.npz"
            if old.exists() and Draw.load(old).hash != draw.hash:
                raise UserError(f"--out {self.path}: holds another draw.npz; choose another folder")
            self._made, self._mine = made, True
            draw.save(self.path / "draw.npz")
            write_json(self.path / "environment.json", environment())
            write_text(self.path / "config.toml", to_toml(experiment.from_anywhere()))
        except OSError as error:
            raise UserError(
                f"--out {self.path}: cannot be written ({error.strerror or error})"
            ) from None

    def goes_on(self, journals: Mapping[str, int]) -> None:
        """Cut the journals back to where a checkpoint says they were; note what it goes on with.

        The checkpoint was checked, and the journals with it.
        """
        try:
            for name in JOURNALS:
                with (self.path / name).open("a+b") as opened:
                    opened.truncate(journals.get(name, 0))
        except OSError as error:
            raise UserError(f"{self.path}: cannot be written ({error.strerror or error})") from None
        try:
            before = read_json(self.path / "environment.json", LARGEST)
        except Unreadable:
            before = {}
        earlier = before.get("resumed")
        again = [*(earlier if isinstance(earlier, list) else []), environment()]
        write_json(self.path / "environment.json", {**before, "resumed": again})

    def discard(self) -> None:
        """Take back what was written, when the run turns out to be impossible."""
        self.unlock()
        if not self._mine or (self.path / "checkpoint").exists():
            return  # somebody else's, or too much to throw away
        for name in FILES:
            with suppress(OSError):
                (self.path / name).unlink()
        rmtree(self.path / EVENTS, ignore_errors=True)
        for path in self._made:
            with suppress(OSError):  # not empty: somebody else's files are in it
                path.rmdir()

    @property
    def ended(self) -> bool:
        """Whether the run in it came to its end, with as many rounds as it had then.

        summary.json is written last.
        """
        return (self.path / "summary.json").is_file()

    def rounds(self) -> list[dict[str, Any]]:
        """The lines of rounds.jsonl."""
        file = self.path / "rounds.jsonl"
        try:
            return journal_lines(file) if file.exists() else []
        except Unreadable as problem:
            raise UserError(str(problem)) from None

    def summary(self) -> dict[str, Any]:
        """That of a finished run."""
        file = self.path / "summary.json"
        try:
            return read_json(file, LARGEST)
        except Unreadable as problem:
            raise UserError(f"{file}: {problem}") from None

    def assessment(self) -> dict[str, npt.NDArray[Any]]:
        """That of a finished run."""
        return dict(read_npz(self.path / "assessment.npz", "assessment"))

    def journals(self) -> dict[str, int]:
        """How long the journals are, in bytes."""
        files = {name: self.path / name for name in JOURNALS}
        return {name: file.stat().st_size for name, file in files.items() if file.exists()}

    def settle(self) -> None:
        """Wait until the journals are on the disk."""
        for name in self.journals():
            settle(self.path / name)

    def round(self, line: Mapping[str, Any]) -> None:
        """Append to rounds.jsonl."""
        self._append("rounds.jsonl", line)

    def client(self, line: Mapping[str, Any]) -> None:
        """Append to clients.jsonl."""
        self._append("clients.jsonl", line)

    def _append(self, name: str, line: Mapping[str, Any]) -> None:
        with (self.path / name).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def save_model(
        self,
        name: str,
        weights: Weights,
        prepared: "Prepared",
        opinion: Mapping[str, npt.NDArray[np.float64]] | None = None,
    ) -> None:
        """Write a model that can be used without the run; `opinion` is what judges labels."""
        experiment, dataset = prepared.experiment, prepared.workspace.dataset
        card = ModelCard(
            net=experiment.model.name,
            **experiment.model.architecture,
            input_shape=dataset.input_shape,
            classes=dataset.classes,
            mean=dataset.mean,
            std=dataset.std,
            method=experiment.method.model_dump(mode="json"),
            as_they_are=dataset.own is not None,
            columns=dataset.columns,
            opinion={key: value.tolist() for key, value in (opinion or {}).items()},
            encoder=dataset.encoder,
            image_shape=dataset.image_shape,
        )
        save_weights(self.path / name, weights, card)

    def finish(
        self, summary: Mapping[str, Any], assessment: Mapping[str, npt.NDArray[Any]]
    ) -> None:
        """Write assessment.npz and, last of all, summary.json; each takes an older one's place."""
        arrays = BytesIO()
        np.savez_compressed(arrays, **assessment)  # type: ignore[arg-type]
        write_bytes(self.path / "assessment.npz", arrays.getvalue())
        self.settle()
        write_json(self.path / "summary.json", summary)
        self.unlock()


def journal_lines(file: Path, size: int | None = None) -> list[dict[str, Any]]:
    """The lines of a journal, up to `size` bytes of it; Unreadable where it is damaged."""
    try:
        content = read_regular(file, LARGEST_JOURNAL)
        if size is not None and len(content) < size:
            raise Unreadable(f"is shorter than the checkpoint says ({size} bytes)")
        content = content[:size]
        if size and not content.endswith(b"\n"):
            raise Unreadable(f"is damaged (no line ends at byte {size}, as the checkpoint says)")
        return [json_object(line) for line in content.splitlines()]
    except Unreadable as problem:
        raise Unreadable(f"{file}: {problem}") from None


def environment() -> dict[str, Any]:
    """What the run ran on."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: metadata.version(name) for name in PACKAGES},
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }

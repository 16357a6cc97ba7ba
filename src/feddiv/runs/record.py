"""A run's folder: what it holds, and how it is written."""

import json
import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from feddiv.config import Experiment, to_toml
from feddiv.data import Draw
from feddiv.errors import UserError
from feddiv.learning.average import Weights
from feddiv.runs.model import ModelCard, save_weights

if TYPE_CHECKING:
    from feddiv.runs.run import Prepared

FILES = (
    "config.toml",
    "assessment.npz",
    "best.safetensors",
    "clients.jsonl",
    "draw.npz",
    "environment.json",
    "model.safetensors",
    "rounds.jsonl",
    "summary.json",
)
PACKAGES = ("feddiv", "torch", "numpy", "safetensors", "pydantic", "scikit-learn")


class RunFolder:
    """Where a run writes; it must not hold one already."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._made: list[Path] = []
        if path.exists() and not path.is_dir():
            raise UserError(f"--out {path}: is a file, not a folder")
        there = [name for name in FILES if (path / name).exists()]
        if there:
            raise UserError(
                f"--out {path}: already holds a run ({there[0]}); choose another folder"
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

    def inside(self, *names: str) -> "RunFolder":
        """The folder of another run that belongs to this one."""
        return RunFolder(self.path.joinpath(*names))

    def begin(self, experiment: Experiment, draw: Draw) -> None:
        """Write what determines the run."""
        self._made = [path for path in (self.path, *self.path.parents) if not path.exists()]
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            draw.save(self.path / "draw.npz")
            write_json(self.path / "environment.json", environment())
            (self.path / "config.toml").write_text(to_toml(experiment), encoding="utf-8")
        except OSError as error:
            raise UserError(
                f"--out {self.path}: cannot be written ({error.strerror or error})"
            ) from None

    def discard(self) -> None:
        """Take back what was written, when the run turns out to be impossible."""
        for name in FILES:
            with suppress(OSError):
                (self.path / name).unlink()
        for path in self._made:
            with suppress(OSError):  # not empty: somebody else's files are in it
                path.rmdir()

    def round(self, line: Mapping[str, Any]) -> None:
        """Append to rounds.jsonl."""
        self._append("rounds.jsonl", line)

    def client(self, line: Mapping[str, Any]) -> None:
        """Append to clients.jsonl."""
        self._append("clients.jsonl", line)

    def _append(self, name: str, line: Mapping[str, Any]) -> None:
        with (self.path / name).open("a") as file:
            file.write(json.dumps(line) + "\n")

    def save_model(self, name: str, weights: Weights, prepared: "Prepared") -> None:
        """Write a model that can be used without the run."""
        experiment, dataset = prepared.experiment, prepared.dataset
        card = ModelCard(
            net=experiment.model.name,
            input_shape=dataset.input_shape,
            classes=dataset.classes,
            mean=dataset.mean,
            std=dataset.std,
            method=experiment.method.model_dump(mode="json"),
        )
        save_weights(self.path / name, weights, card)

    def finish(
        self, summary: Mapping[str, Any], assessment: Mapping[str, npt.NDArray[Any]]
    ) -> None:
        """Write assessment.npz and, last of all, summary.json."""
        np.savez_compressed(self.path / "assessment.npz", **assessment)  # type: ignore[arg-type]
        write_json(self.path / "summary.json", summary)


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Replace the file at once: a reader sees the old one or the new one."""
    temporary = path.with_name(path.name + ".part")
    temporary.write_text(json.dumps(value, indent=2) + "\n")
    os.replace(temporary, path)


def environment() -> dict[str, Any]:
    """What the run ran on."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: metadata.version(name) for name in PACKAGES},
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }

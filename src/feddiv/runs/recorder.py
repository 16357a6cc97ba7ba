"""Everything a run writes while it goes on: journals, the best model, checkpoints."""

import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from shutil import rmtree

from feddiv.core.arrays import Weights
from feddiv.federation.federation import Federation
from feddiv.runs.checkpoint import Checkpoint, Checkpoints, Standing
from feddiv.runs.checkpoint_check import check_content
from feddiv.runs.evaluate import comparable
from feddiv.runs.journal import Record
from feddiv.runs.loop import Cut
from feddiv.runs.prepare import Prepared
from feddiv.runs.run_folder import RunFolder


class Recorder:
    """Writes what happens in the loop. After a resume it goes on where the checkpoint left off."""

    def __init__(
        self,
        prepared: Prepared,
        folder: RunFolder,
        federation: Federation,
        listener: Callable[[Record, Weights], None],
    ) -> None:
        self.prepared, self.folder, self.federation = prepared, folder, federation
        self.listener = listener
        self.checkpoints = checkpoints_of(prepared, folder.path)
        self.rounds: list[Record] = []
        self._latest: tuple[Cut, Standing] | None = None
        self._saved = True
        self._before = 0.0  # seconds of earlier sessions
        self._started = self._written = time.perf_counter()

    def goes_on(self, checkpoint: Checkpoint) -> None:
        """Take over what an earlier session left; the journals were cut back to it."""
        standing = checkpoint.standing
        self.rounds = self.folder.rounds()
        self._before = standing.seconds
        self._latest = (checkpoint.cut, standing)

    @property
    def seconds(self) -> float:
        """Time spent on the run, over all sessions."""
        return self._before + time.perf_counter() - self._started

    def client(self, line: Record) -> None:
        """A visit is over."""
        self.folder.client(line)

    def round(self, line: Record, weights: Weights) -> None:
        """A round is over."""
        self.rounds.append(line)
        self.folder.round(line)
        measure = self.prepared.experiment.evaluation.measure
        rivals = comparable(self.rounds, measure)
        # max gives the first of several, so a round is the best only if it is better.
        if rivals and max(rivals, key=lambda each: each[measure]) is line:
            self.folder.save_model("best.safetensors", weights, self.prepared)
        self.listener(line, weights)

    def cut(self, cut: Cut) -> None:
        """The run can be cut here; write a checkpoint if it is time for one."""
        self._latest = (cut, Standing(self.folder.journals(), self.seconds))
        self._saved = False
        due = self.prepared.experiment.checkpoint.seconds
        if time.perf_counter() - self._written >= due:
            self.save()

    def save(self) -> None:
        """Write the newest cut, if it is not written yet."""
        if self._latest is None or self._saved:
            return
        self.folder.settle()
        self.checkpoints.write(*self._latest, self.federation)
        self._saved, self._written = True, time.perf_counter()

    def forget(self) -> None:
        """Take back the checkpoints."""
        rmtree(self.checkpoints.folder, ignore_errors=True)


def checkpoints_of(prepared: Prepared, path: Path) -> Checkpoints:
    """The checkpoints of the run in a folder, told from others' by its config and its draw."""
    identity = identity_of((path / "config.toml").read_bytes(), prepared)
    method = prepared.workspace.method

    def check(checkpoint: Checkpoint) -> None:
        check_content(checkpoint, prepared, path)

    return Checkpoints(path, identity, method.State, method.kept, check)


def identity_of(config: bytes, prepared: Prepared) -> str:
    """What tells a run with this config.toml and its draw from others."""
    return hashlib.sha256(config + prepared.draw.hash.encode()).hexdigest()

"""The label audits of a run's clients, in the run's folder."""

from collections.abc import Callable, Collection
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from feddiv.audits.clients import client_audit, opinion_of, young
from feddiv.audits.folder import write_audit
from feddiv.audits.label_audit import LabelAudit, LabelAudits
from feddiv.audits.labels_file import LABELS
from feddiv.config.experiment import Experiment
from feddiv.core.errors import UserError
from feddiv.core.import_path import named_in
from feddiv.core.randomness import Streams
from feddiv.data import Dataset, DataWatcher, Draw, Loaded
from feddiv.federation.client_memory import ModelFiles
from feddiv.federation.in_process import InProcess
from feddiv.methods.contract import Assessment
from feddiv.runs.checkpoint import FOLDER, NETS
from feddiv.runs.extension import load_begun, newest_checkpoint
from feddiv.runs.links import check_own_files
from feddiv.runs.prepare import Prepared, drawn, prepare
from feddiv.runs.run import Run, finished_run
from feddiv.runs.run_folder import JOURNALS, RunFolder

CLIENTS: Final = "clients"  # in a run's folder: one folder for each client


def client_folder(run: Path, client: int) -> Path:
    """Where a simulated client has what is its own."""
    return run / CLIENTS / f"{client:04d}"


def audits_of(
    dataset: Dataset, draw: Draw, assessment: dict[str, npt.NDArray[Any]], experiment: Experiment
) -> LabelAudits:
    """Those of all clients of a finished run."""
    early = young(experiment)
    return LabelAudits(
        tuple(
            client_audit(
                dataset,
                draw,
                client,
                opinion_of(assessment, client),
                experiment.method.name,
                early,
            )
            for client in range(len(draw.parts))
        )
    )


def leave_lists(prepared: Prepared, run: Run) -> None:
    """Write every client's list when its run is over; one that has them is left alone."""
    if not run.assessment or _lists_are_there(run.folder, len(prepared.draw.parts)):
        return
    audits = audits_of(prepared.dataset, prepared.draw, run.assessment, run.experiment)
    write_audits(run.folder, audits, pages=False)


def _lists_are_there(folder: Path, clients: int) -> bool:
    """Whether the last client's list was written after the run's end."""
    last = client_folder(folder, clients - 1) / LABELS
    ended = (folder / "summary.json").stat().st_mtime_ns
    return last.is_file() and last.stat().st_mtime_ns >= ended


def write_audits(folder: Path, audits: LabelAudits, *, pages: bool = True) -> None:
    """Each client's into its own folder of a run."""
    for client, audit in enumerate(audits):
        write_audit(client_folder(folder, client), audit, page=pages)


def run_audits(
    path: Path,
    watcher: DataWatcher | None = None,
    brought: Loaded | None = None,
    allow: Collection[str] = (),
) -> LabelAudits:
    """Those of the run in a folder: as it ended, or as its last checkpoint would judge now.

    Nothing is written. `brought` are data that were given in Python, `allow` import paths that the
    folder's config may name.
    """
    for name in ("config.toml", "draw.npz"):
        if not (path / name).is_file():
            raise UserError(f"{path}: is no folder of a run ({name} is missing)")
    check_own_files(path, JOURNALS)
    with named_in(path / "config.toml", allow):
        experiment, draw = load_begun(path), Draw.load(path / "draw.npz")
        if not draw.parts or experiment.federation.name == "flower_simulation":
            raise UserError(
                f"{path}: the audits of this run are with its sites: each has {LABELS} in its own "
                "folder"
            )
        folder = RunFolder.reading(path)
        if not folder.ended:
            prepared = prepare(experiment, draw, watcher, brought)
            return _unfinished(prepared, path)
        run = finished_run(experiment, folder)
        dataset, draw = drawn(experiment, draw, watcher, brought)
    _check_fits(run, draw, len(dataset.classes))
    return audits_of(dataset, draw, run.assessment, experiment)


def _unfinished(prepared: Prepared, path: Path) -> LabelAudits:
    """What the model and the filter of the newest checkpoint say."""
    experiment, method = prepared.experiment, prepared.workspace.method
    checkpoint = newest_checkpoint(prepared, path, lambda reason: None)
    if checkpoint is None:
        line = "The run has not come to its first checkpoint: nothing was learnt to judge by yet."
        return _audits(prepared, lambda client: None, (line,))
    nets = path / FOLDER / NETS
    method.model_store = ModelFiles(nets)
    with closing(InProcess(prepared.workspace, nets)) as federation:
        federation.restore(checkpoint.clients)
        if checkpoint.cut.standard is not None:
            federation.standardise(checkpoint.cut.standard.scaling)
        message = method.assessment(checkpoint.cut.state)
        opinions = dict(federation.assess(message, Streams(experiment.seed)))
    done, turns = checkpoint.cut.turn - 1, prepared.turns
    line = f"The run is not over: this is what its model says after {done} of {turns} turns."
    return _audits(prepared, opinions.get, (line,))


def _audits(
    prepared: Prepared, opinion: Callable[[int], Assessment | None], missing: tuple[str, ...]
) -> LabelAudits:
    dataset, draw, method = prepared.dataset, prepared.draw, prepared.experiment.method.name
    sites: list[LabelAudit] = [
        client_audit(dataset, draw, client, opinion(client), method, missing)
        for client in range(len(draw.parts))
    ]
    return LabelAudits(tuple(sites))


def _check_fits(run: Run, draw: Draw, classes: int) -> None:
    """Refuse an assessment that is not of this draw, or holds no qualities and classes."""
    arrays, file = run.assessment, run.folder / "assessment.npz"
    for prefix, parts in (("", draw.parts), ("held_out_", draw.held_out or ())):
        held = np.concatenate([*parts, np.empty(0, np.int64)])
        if not np.array_equal(arrays.get(f"{prefix}sample", np.empty(0)), held):
            raise UserError(f"{file}: is damaged (its samples are not those of draw.npz)")
        for name in ("label_quality", "second_opinion", "confidence"):
            values = arrays.get(prefix + name, np.empty(0))
            if (values < 0).any() or (values > 1).any():
                raise UserError(f"{file}: is damaged ({prefix}{name} is not from 0 to 1)")
        predicted = arrays.get(f"{prefix}predicted_label", np.empty(0, np.int64))
        if predicted.dtype.kind not in "iu" or ((predicted < 0) | (predicted >= classes)).any():
            raise UserError(f"{file}: is damaged ({prefix}predicted_label is no class)")

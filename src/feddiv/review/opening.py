"""What there is to review in a folder: the clients of a run, or a site by itself."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from feddiv.audits.estimate import Estimate
from feddiv.audits.folder import read_audit, was_encoded
from feddiv.audits.label_audit import LabelAudit
from feddiv.audits.labels_file import LABELS
from feddiv.audits.runs import CLIENTS, client_folder, run_audits
from feddiv.config.reading import load_experiment
from feddiv.core.errors import UserError
from feddiv.core.given_files import check_no_link
from feddiv.core.import_path import named_in
from feddiv.core.spreadsheets import cell
from feddiv.data import Dataset, DataWatcher
from feddiv.data.corrections import CORRECTIONS
from feddiv.data.data_options import DataOptions
from feddiv.data.sources.own_files import unread_own
from feddiv.review.label_list import LabelList, label_list
from feddiv.review.looks import Looks
from feddiv.review.table_facts import TableFacts, table_facts

RUN: Final = ("config.toml", "draw.npz")  # what every run's folder has
NUMBER: Final = re.compile(r"[0-9]{4,}")  # the name of a client's folder


@dataclass(frozen=True)
class ListedLabels:
    """A site whose labels can be reviewed; its list is made when somebody asks for it.

    `wrong` is how many labels are expected to be wrong, None where nobody knows.
    """

    name: str
    labels: int
    wrong: int | None
    folder: Path
    open: Callable[[], LabelList]


def reviewable(
    path: Path,
    client: int | None = None,
    data: Path | None = None,
    images: Collection[Path] = (),
    watcher: DataWatcher | None = None,
    allow: Collection[str] = (),
) -> list[ListedLabels]:
    """The sites in a folder, at least one of them; UserError where there is nothing to review.

    `client` is the one of a run's clients that is meant, `data` where a site's own data are now,
    `images` are folders outside of the data in which its images may lie.
    """
    if not path.is_dir():
        raise UserError(f"{path}: there is no such folder")
    within = tuple(folder.resolve() for folder in images)
    parent = path.resolve().parent
    if parent.name == CLIENTS and _is_run(parent.parent) and NUMBER.fullmatch(path.resolve().name):
        path, client = parent.parent, int(path.resolve().name)
    if _is_run(path):
        if data is not None:
            raise UserError(f"--data {data}: {path} is a run, whose config says where its data are")
        return _of_run(path, client, within, watcher, allow)
    if client is not None:
        raise UserError(f"--client {client}: {path} is no run, in which clients have numbers")
    folders = [path] if (path / LABELS).is_file() else _below(path)
    if not folders:
        raise UserError(
            f"{path}: is no run and has no {LABELS}; `feddiv audit` makes a site's list of labels"
        )
    if data is not None and len(folders) > 1:
        raise UserError(f"--data {data}: goes with one site's folder; {path} has {len(folders)}")
    return [_of_site(folder, data, within) for folder in folders]


def check_writable(folder: Path) -> None:
    """Refuse a folder in which no decision could be kept, before anybody has made one."""
    place, file = folder, folder / CORRECTIONS
    check_no_link(file, "corrections")
    try:
        there = next(each for each in (folder, *folder.parents) if each.exists())
        with tempfile.TemporaryFile(dir=there):
            pass
        if file.is_file():  # it may be locked by itself
            place = file
            os.close(os.open(file, os.O_RDWR | os.O_APPEND))
    except OSError as error:
        reason = error.strerror or error
        raise UserError(
            f"{place}: cannot be written, so no decision could be kept ({reason})"
        ) from None


def _is_run(path: Path) -> bool:
    return all((path / name).is_file() for name in RUN)


def _below(path: Path) -> list[Path]:
    """Folders of several sites, as `feddiv audit --out` makes them."""
    return sorted(each for each in path.iterdir() if (each / LABELS).is_file())


def _of_run(
    path: Path,
    client: int | None,
    within: tuple[Path, ...],
    watcher: DataWatcher | None,
    allow: Collection[str],
) -> list[ListedLabels]:
    audits = run_audits(path, watcher, allow=allow)
    if client is not None and not 0 <= client < len(audits):
        raise UserError(f"--client {client}: {path} has clients 0 to {len(audits) - 1}")
    with named_in(path / "config.toml", allow):
        options = load_experiment(path / "config.toml").data
    chosen = range(len(audits)) if client is None else [client]
    sites = [
        _listed(audits[number], client_folder(path, number), options, within) for number in chosen
    ]
    if all(audits[number].opinion is None for number in chosen):
        said = " ".join(dict.fromkeys(line for each in audits for line in each.missing))
        raise UserError(f"{path}: there is no audit to review. {said}")
    filled = [site for site in sites if site.labels]
    if not filled:
        raise UserError(f"{path}: there are no labels to review")
    return filled


def _listed(
    audit: LabelAudit, folder: Path, options: DataOptions, within: tuple[Path, ...]
) -> ListedLabels:
    def opened() -> LabelList:
        assert audit.samples is not None
        dataset = audit.samples.dataset
        facts = _facts(options, dataset.columns)
        return label_list(audit, folder, Looks.of(dataset, audit.samples.rows, within, facts))

    return _named(audit, audit.estimate, folder, opened)


def _named(
    audit: LabelAudit, estimate: Estimate | None, folder: Path, opened: Callable[[], LabelList]
) -> ListedLabels:
    wrong = None if estimate is None else round(estimate.share * len(audit))
    return ListedLabels(audit.site, len(audit), wrong, folder, opened)


def _facts(options: DataOptions, samples: tuple[str, ...]) -> TableFacts | None:
    """What a table says besides; it may be gone, or have changed."""
    if options.source != "table" or options.path is None:
        return None
    try:
        return table_facts(options, samples)
    except UserError:
        return None


def _of_site(folder: Path, data: Path | None, within: tuple[Path, ...]) -> ListedLabels:
    audit, estimate = read_audit(folder)
    if not len(audit):
        raise UserError(f"{folder / LABELS}: there are no labels to review")

    def opened() -> LabelList:
        looks, notes = _looks(audit, data, was_encoded(folder), within)
        made = label_list(audit, folder, looks)
        return replace(made, estimate=estimate, notes=(*made.notes, *notes))

    return _named(audit, estimate, folder, opened)


def _looks(
    audit: LabelAudit, given: Path | None, encoded: bool, within: tuple[Path, ...]
) -> tuple[Looks, tuple[str, ...]]:
    """How the samples look that a list names; and why not, if nobody has them."""
    nothing = Looks(np.full(len(audit), -1))
    path = given or audit.data
    if path is None:
        return nothing, ("Nothing says where the samples are; --data names their folder or file.",)
    try:
        options, own = unread_own(path, f"--data {path}", encoded=encoded)
    except UserError as problem:
        if given is not None:
            raise
        return nothing, (f"The samples cannot be shown ({problem}); --data says where they are.",)
    facts = _facts(options, own.columns)
    if isinstance(own, Dataset):
        names = [own.name_of(row) for row in range(len(own.train))]
    else:
        names = [own.train.images.name(row) for row in range(len(own.train))]
    place = {cell(name): row for row, name in enumerate(names)}
    rows = np.array([place.get(audit.name(number), -1) for number in range(len(audit))], np.int64)
    if (rows < 0).all():
        raise UserError(f"--data {path}: has none of the samples that are listed")
    lost = int((rows < 0).sum())
    notes = (f"{lost:,} of the samples are not at {path} any more.",) if lost else ()
    if isinstance(own, Dataset):
        return Looks.of(own, rows, within, facts), notes
    return Looks.of_files(own.train.images, rows, within, facts), notes

"""Files for annotation tools in the folder of a site, and decisions from the tools' files."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from feddiv.audits.exchange import cvat, label_studio, table
from feddiv.audits.exchange.items import FoundDecision, chosen
from feddiv.audits.folder import read_audit
from feddiv.audits.label_audit import LabelAudit
from feddiv.audits.labels_file import LABELS
from feddiv.audits.runs import client_folder, run_audits
from feddiv.core.errors import UserError
from feddiv.core.files import write_bytes, write_text
from feddiv.core.given_files import read_given
from feddiv.core.names import check_name
from feddiv.data import DataWatcher
from feddiv.data.corrections import (
    CORRECTIONS,
    Decision,
    DecisionKind,
    Review,
    Subject,
    append,
    listed_subject,
    now,
    read,
)

NAMES: Final = {
    "label-studio": ("label-studio.json", "label-studio.xml"),
    "cvat": ("cvat.zip",),
    "csv": ("to-review.csv",),
}
MOST: Final = 1 << 30  # bytes of a tool's file
WITHIN_RUN: Final = "config.toml"


@dataclass(frozen=True)
class Imported:
    """How many decisions a file has added, and lines about it."""

    confirmed: int
    corrected: int
    others: int
    known: int  # what the corrections had already
    file: Path
    notes: tuple[str, ...] = ()


def site_audits(
    folder: Path, watcher: DataWatcher | None = None, allow: Collection[str] = ()
) -> list[tuple[Path, LabelAudit]]:
    """The audits of a run, of one of its clients, or of a site, each with the site's folder."""
    run = folder.absolute().parent.parent
    if (folder / WITHIN_RUN).is_file():
        found = run_audits(folder, watcher, allow=allow)
        return [(client_folder(folder, number), audit) for number, audit in enumerate(found)]
    if folder.name.isdigit() and (run / WITHIN_RUN).is_file() and (run / "draw.npz").is_file():
        found = run_audits(run, watcher, allow=allow)
        if int(folder.name) >= len(found):
            raise UserError(f"{folder}: the run has clients 0 to {len(found) - 1}")
        return [(folder, found[int(folder.name)])]
    if not (folder / LABELS).is_file():
        raise UserError(f"{folder}: is neither the folder of a run nor a site's ({LABELS})")
    return [(folder, read_audit(folder)[0])]


def export(
    audit: LabelAudit, folder: Path, tool: str, worst: int | None, prefix: str | None
) -> tuple[int, list[Path]]:
    """Write a site's doubtful labels for a tool; how many these are, and the files."""
    items = chosen(audit, worst)
    _check_names(folder, [each.sample for each in items], audit.classes, prefix)
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / name for name in NAMES[tool]]
    if tool == "csv":
        write_text(files[0], table.text(items, prefix))
    elif tool == "cvat":
        write_bytes(files[0], cvat.archive(audit, items, str(folder)))
    else:
        tasks = label_studio.tasks(audit, items, prefix)
        images = any("image" in task["data"] for task in tasks)
        config = label_studio.labelling_config(audit.classes, images=images)
        write_text(files[0], json.dumps(tasks, indent=1) + "\n")
        write_text(files[1], config)
    return len(items), files


def _check_names(
    folder: Path, samples: Sequence[str], classes: Sequence[str], prefix: str | None
) -> None:
    """Before any file is written: names of data may have bytes in them that are no text."""
    try:
        for what, names in (("sample", samples), ("class", classes), ("--prefix", [prefix or ""])):
            for name in names:
                check_name(what, name)
    except ValueError as problem:
        raise UserError(f"{folder}: {problem}") from None


def import_file(folder: Path, path: Path, reviewer: str | None, *, confirm: bool) -> Imported:
    """Add what a tool's file decides about a site's labels to its corrections.

    With `confirm` a label that is unchanged is right also where nothing says that somebody looked.
    UserError where the file is about other data; then nothing is added.
    """
    audit, _ = read_audit(folder)
    names = [audit.name(number) for number in range(len(audit))]
    given = [audit.classes[label] for label in audit.given]
    file = folder / CORRECTIONS
    subject = listed_subject(names, given, audit.classes, file)
    try:
        decisions = _decided(_found(path, subject, audit.classes), subject, reviewer, confirm)
    except ValueError as problem:
        raise UserError(f"{path}: {problem}") from None
    before = read(file, subject) if file.exists() else None
    standing = {} if before is None else Review.of(before.decisions).by_reviewer
    new = [each for each in decisions if not _stands(each, standing.get(each.reviewer, {}))]
    notes = () if before is None else before.notes
    if new:
        healed = append(file, new)
        notes = notes if healed is None else (healed,)
    kinds = [each.decision for each in new]
    confirmed, corrected = kinds.count(DecisionKind.CONFIRM), kinds.count(DecisionKind.CORRECT)
    others = len(new) - confirmed - corrected
    return Imported(confirmed, corrected, others, len(decisions) - len(new), file, notes)


def _found(path: Path, subject: Subject, classes: Sequence[str]) -> Iterable[FoundDecision]:
    try:
        content = read_given(path, MOST)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from None
    if content[:4] == b"PK\x03\x04" or path.suffix.lower() == ".zip":
        names = {name: None for name, _ in subject.samples.values()}
        return cvat.read(content, names, classes)
    if content.lstrip()[:1] in (b"[", b"{"):
        return label_studio.read(content, classes)
    return table.read(content, subject.samples, classes)


def _decided(
    found: Iterable[FoundDecision], subject: Subject, reviewer: str | None, confirm: bool
) -> list[Decision]:
    """Decisions of a file; ValueError where they are not about these labels, or by nobody."""
    moment, decisions = now(), []
    for each in found:
        for what, text in (
            ("sample", each.sample),
            ("label", each.label),
            ("reviewer", each.reviewer),
        ):
            check_name(what, text or "")
        own = subject.given(each.sample)
        label = each.label or ""
        kind = each.kind or (DecisionKind.CORRECT if label else DecisionKind.CANNOT_TELL)
        if kind is DecisionKind.CORRECT and subject.same(label, own):
            if not each.looked and not confirm:
                continue
            kind, label = DecisionKind.CONFIRM, own
        who = each.reviewer or reviewer
        if not who:
            raise ValueError("does not say who decided; say it by --reviewer NAME")
        decision = Decision(each.sample, own, kind, label, who, each.time or moment)
        decisions.append(subject.own(decision))
    return decisions


def _stands(decision: Decision, standing: dict[str, Decision] | object) -> bool:
    """Whether the reviewer's decision on the sample already is this one."""
    last = standing.get(decision.sample) if isinstance(standing, dict) else None
    return last is not None and (last.decision, last.label) == (decision.decision, decision.label)

"""`feddiv audit`: every site's list of doubtful labels, and its page."""

from collections.abc import Collection, Sequence
from pathlib import Path

from feddiv.audits.folder import write_audit
from feddiv.audits.label_audit import LabelAudit, LabelAudits
from feddiv.audits.labels_file import LABELS
from feddiv.audits.page import PAGE
from feddiv.audits.probabilities import audits_of_predictions, read_predictions
from feddiv.audits.runs import client_folder
from feddiv.audits.verb import audits
from feddiv.cli.audit_table import print_sites
from feddiv.cli.consoles import output
from feddiv.cli.progress import progress
from feddiv.core.errors import UserError

FOLDER = Path("audit")  # where audits of no run go, if nothing else is said


def audit_labels(
    run: Path | None,
    model: Path | None,
    data: Sequence[Path],
    probabilities: Sequence[Path],
    out: Path | None,
    allow: Collection[str],
) -> None:
    """Judge, write, and say where."""
    if sum((run is not None, model is not None, bool(probabilities))) != 1:
        raise UserError("give one of these: DIR, --model or --probabilities")
    if probabilities and data:
        raise UserError("--data: goes with DIR or --model; --probabilities needs no samples")
    if run is not None and not data and out is not None:
        raise UserError(f"--out {out}: a run's audits go to {run}/clients")
    with progress(quiet=False) as watcher:
        if probabilities:
            found = audits_of_predictions([read_predictions(path) for path in probabilities])
        else:
            found = audits(run, data=list(data) or None, model=model, allow=allow, watcher=watcher)
    folders = _folders(found, run if not data else None, out or FOLDER)
    for folder, audit in zip(folders, found, strict=True):
        write_audit(folder, audit)
    _say(found.sites, folders)


def _folders(found: LabelAudits, run: Path | None, out: Path) -> list[Path]:
    if run is not None:
        return [client_folder(run, client) for client in range(len(found))]
    names = [audit.site for audit in found]
    twice = len(set(names)) < len(names)
    return [out / (f"{number}-{name}" if twice else name) for number, name in enumerate(names)]


def _say(found: Sequence[LabelAudit], folders: Sequence[Path]) -> None:
    console = output()
    print_sites(console, found)
    said = dict.fromkeys(line for audit in found for line in audit.missing)
    where = folders[0] if len(folders) == 1 else folders[0].parent / "*"
    for line in (*said, f"Lists      {where / LABELS}", f"Pages      {where / PAGE}"):
        console.print(line, soft_wrap=True, markup=False)

"""Where a site's audit lies: in the site's own folder, and nowhere else."""

from pathlib import Path

from feddiv.audits.label_audit import LabelAudit
from feddiv.audits.labels_file import LABELS, csv_text
from feddiv.audits.page import PAGE, labels_page
from feddiv.core.files import write_text


def write_audit(folder: Path, audit: LabelAudit, *, page: bool = True) -> None:
    """Write labels.csv and, if wanted, labels.html; each takes an older one's place."""
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / LABELS, csv_text(audit))
    if page:
        write_text(folder / PAGE, labels_page(audit))

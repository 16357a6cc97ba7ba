"""Where a site's audit lies: in the site's own folder, and nowhere else."""

from pathlib import Path
from typing import Any, Final

from feddiv.audits.estimate import Estimate
from feddiv.audits.label_audit import LabelAudit
from feddiv.audits.labels_file import LABELS, csv_text, read_labels
from feddiv.audits.page import PAGE, labels_page
from feddiv.core.errors import UserError
from feddiv.core.files import Unreadable, read_json, write_bytes, write_json
from feddiv.core.given_files import SMALL
from feddiv.core.names import check_name
from feddiv.core.terminal import shown

FACTS: Final = "audit.json"
LONGEST: Final = 120  # characters of a site's name, for which every disk has room


def site_name(name: str) -> str:
    """A site's name, after its folder or file: also that of its audit's folder, and of no other.

    >>> site_name("north"), site_name(".."), site_name("")
    ('north', 'site', 'site')
    """
    return shown(name, LONGEST) if name.strip(". ") else "site"


def write_audit(folder: Path, audit: LabelAudit, *, page: bool = True) -> None:
    """Write labels.csv and, if wanted, labels.html; each takes an older one's place.

    `audit.json` has what the list does not say, for whoever looks at it again: all classes, the
    estimate with its interval, and where the data are, if they are the site's own.
    """
    files = {LABELS: csv_text(audit).encode()}  # all of them before the first is written
    if page:
        files[PAGE] = labels_page(audit).encode()
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / FACTS, _facts(audit))  # first: where the list is, these are too
    for name, content in files.items():
        write_bytes(folder / name, content)


def _facts(audit: LabelAudit) -> dict[str, Any]:
    estimate = audit.estimate
    shares = None if estimate is None else [estimate.share, estimate.low, estimate.high]
    return {
        "site": audit.site,
        "classes": list(audit.classes),
        "data": None if audit.data is None else str(audit.data.absolute()),
        "encoded": audit.samples is not None and audit.samples.dataset.encoder is not None,
        "wrong_share": shares,
    }


def was_encoded(folder: Path) -> bool:
    """Whether an encoder saw the samples: of a table, its texts or images and not its numbers."""
    try:
        return read_json(folder / FACTS, SMALL).get("encoded") is True
    except (OSError, Unreadable):
        return False


def read_audit(folder: Path) -> tuple[LabelAudit, Estimate | None]:
    """The audit that was written to a folder, and its estimate with the interval it had.

    Views and data are not with it. UserError where the files are not what `write_audit` writes.
    """
    file = folder / FACTS
    site, classes, data, estimate = folder.resolve().name, None, None, None
    if file.is_file():
        try:
            facts = read_json(file, SMALL)
            site, classes = str(facts["site"]), tuple(map(str, facts["classes"]))
            for name in classes:
                check_name("class", name)
            data = None if facts["data"] is None else Path(str(facts["data"]))
            if facts["wrong_share"] is not None:
                share, low, high = map(_share, facts["wrong_share"])
                estimate = None if share is None else Estimate(share, low, high)
        except (Unreadable, KeyError, TypeError, ValueError) as problem:
            raise UserError(f"{file}: is damaged ({problem})") from None
    audit = read_labels(folder / LABELS, site, classes, data)
    return audit, estimate or audit.estimate


def _share(value: Any) -> Any:
    """A share, or None where nobody knows it; ValueError for anything else."""
    if value is not None and not (isinstance(value, int | float) and 0 <= value <= 1):
        raise ValueError(f"{value!r} is no share")
    return value

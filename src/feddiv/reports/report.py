"""Writing what people look at after a run: its page, its picture, figures for papers."""

from collections.abc import Sequence
from pathlib import Path

from feddiv.core.errors import UserError
from feddiv.core.files import write_text
from feddiv.core.given_files import at_home, check_writable
from feddiv.reports.page import report_page
from feddiv.reports.picture import save_picture
from feddiv.reports.record import read_runs
from feddiv.runs.run import Run
from feddiv.runs.run_folder import PICTURE, REPORT


def save_report(
    folders: Sequence[str | Path], out: str | Path | None = None, figures: str | Path | None = None
) -> Path:
    """Write the page of the runs in these folders, and figures if a folder for them is named.

    Without `out` the page of one run goes into its folder, that of several into this one.
    """
    records = read_runs(folders)
    alone = len(set(map(str, folders))) == 1
    file = (
        at_home(out) if out is not None else records[0].folder / REPORT if alone else Path(REPORT)
    )
    if file.is_dir():
        raise UserError(f"--out {file}: is a folder; name a file, such as {file / REPORT}")
    check_writable(file, "--out")
    if not file.parent.is_dir():
        raise UserError(f"--out {file}: there is no folder {file.parent}")
    content = report_page(records)
    if figures is not None:
        from feddiv.reports.figures import save_figures

        save_figures(records, at_home(figures))
    write_text(file, content)
    return file


def save_results(run: Run) -> None:
    """Write the page and the picture of a run that has ended into its folder."""
    records = read_runs([run.folder])
    save_picture(records)
    write_text(run.folder / REPORT, report_page(records))


def is_drawn(run: Run) -> bool:
    """Whether both in the run's folder are of these results: they are written after them all."""
    runs = (run, *run.against.values())
    files = [run.folder / name for name in (PICTURE, REPORT)]
    if not all(file.is_file() for file in files):
        return False
    written = max((each.folder / "summary.json").stat().st_mtime_ns for each in runs)
    return min(file.stat().st_mtime_ns for file in files) >= written

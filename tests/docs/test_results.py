"""The tables of the results page are what the committed rows say."""

import re
from pathlib import Path

import pytest
from docs.generate import results
from tests.docs.pages import ROOT

from feddiv.core.errors import UserError
from feddiv.tables.rows import read_rows
from feddiv.tables.sweep_file import read_sweep

SWEEPS = sorted((ROOT / "benchmarks" / "sweeps").glob("*.toml"))


@pytest.mark.parametrize("page", results.PAGES, ids=lambda page: page.stem)
def test_the_page_is_what_the_files_say(page: Path) -> None:
    text = page.read_text()
    assert "<!-- results:" in text
    assert results.generated(text) == text, "make results"


def test_a_number_that_is_changed_by_hand_is_put_right() -> None:
    page = results.PAGES[0].read_text()
    forged, changed = re.subn(r"\| \*\*0\.\d+\*\* \|", "| **0.123** |", page, count=1)
    assert changed == 1
    assert forged != page
    assert results.generated(forged) == page


def test_what_is_written_by_hand_stays() -> None:
    page = results.PAGES[0].read_text() + "\nA new sentence, with 12.3 in it.\n"
    assert results.generated(page) == page


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ("<!-- results: sweep x.toml -->\n", "has no end"),
        ("<!-- results: magic x -->\n<!-- end of results -->", "'magic x' is no block"),
    ],
)
def test_a_block_that_is_none_is_refused(block: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        results.generated(f"text\n\n{block}")


@pytest.mark.parametrize("file", SWEEPS, ids=lambda file: file.stem)
def test_committed_sweeps_can_be_run_and_keep_rows_beside_the_others(file: Path) -> None:
    sweep = read_sweep(file)
    assert sweep.keep == "rows"
    assert sweep.rows is not None
    assert sweep.rows.resolve() == ROOT / "benchmarks" / "results" / f"{file.stem}.jsonl"


def test_every_row_of_a_committed_sweep_counts() -> None:
    """A row that was made with other options than today's would show in no table."""
    for file in SWEEPS:
        sweep = read_sweep(file)
        assert sweep.rows is not None
        if not sweep.rows.exists():
            continue
        seeds = set(sweep.seeds)
        rows = {row.made_by for row in read_rows(sweep.rows) if row.seed in seeds}
        jobs = {job.made_by for job in sweep.jobs}
        if file.stem != "features":  # tables of the paper keep theirs there too
            assert rows <= jobs, file.stem


def test_rows_have_no_place_of_a_machine_in_them() -> None:
    for file in (ROOT / "benchmarks" / "results").glob("*.jsonl"):
        assert not re.search(r"/(home|root|work|tmp|Users)/", file.read_text()), file.name

"""A figure of the paper made again by real runs, and its page in a real browser."""

from pathlib import Path

import pytest
from tests.browser import opened

import feddiv

pytestmark = pytest.mark.full


def test_a_figure_from_nothing_to_its_page(tmp_path: Path, browser) -> None:
    out = tmp_path / "tiny"
    swept, made = feddiv.reproduce("figure-heatmaps", "tiny", seeds="1", out=out)
    assert swept.failed == {}
    assert [row.method for row in swept.rows] == ["feddiv-paper", "feddiv"]
    assert "| feddiv-paper | " in made.text
    assert " | 91.44±0.25 |" in made.text
    assert (out / "figures" / "figure-heatmaps").is_dir()
    with opened(browser, made.page) as there:
        images = there.page.locator("img")
        assert images.count() == 2, "accuracy by round, and the labels"
        for place in range(2):
            images.nth(place).scroll_into_view_if_needed()
            assert images.nth(place).evaluate("image => image.decode().then(() => image.width)") > 0
        assert there.page.get_by_text("91.44±0.25").count() == 2
    # A second table needs one of these runs again: it is not repeated.
    again, _ = feddiv.reproduce("figure-heatmaps", "tiny", seeds="1", methods=["feddiv"], out=out)
    assert again.rows[0].summary == swept.rows[1].summary

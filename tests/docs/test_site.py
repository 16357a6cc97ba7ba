"""The documentation as a site."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.pages import ROOT

OUTSIDE = re.compile(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=\"?(?:https?:)?//[^>]*>")
MADE_FROM_THE_CODE = {
    "reference/config.html": "method.filter.drop_below",
    "reference/command-line.html": "feddiv deploy init",
    "reference/choices.html": "on real digits where half of the labels are wrong",
    "reference/python.html": "The filter that these clients, one array of raw scores each, learn",
    "feddiv.html": "method.filter.fit global local local",
}


@pytest.mark.slow
def test_the_site_is_complete_and_needs_nothing_from_elsewhere(tmp_path: Path) -> None:
    """Strict: a link that leads nowhere, or a page that is not listed, is an error."""
    site = tmp_path / "site"
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(build, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr

    for markdown in (ROOT / "docs").rglob("*.md"):
        assert (site / markdown.relative_to(ROOT / "docs")).with_suffix(".html").is_file()
    for page, words in MADE_FROM_THE_CODE.items():
        assert words in " ".join(re.sub(r"<[^>]+>", "", (site / page).read_text()).split()), page
    for page in site.rglob("*.html"):
        assert OUTSIDE.findall(page.read_text()) == [], page.name
    for style in site.rglob("*.css"):
        assert "url(http" not in style.read_text(), style.name

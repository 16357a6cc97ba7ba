"""The frame in a real browser; what it shows is for the pages that use it."""

import pytest
from tests.browser import opened

from feddiv.pages import Html, page, section

pytestmark = pytest.mark.slow


def _background(page):
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


def test_light_and_dark_by_the_system_and_by_the_button(browser, tmp_path):
    file = tmp_path / "page.html"
    file.write_text(page("Colours", section("one", "One", "text")), "utf-8")
    with opened(browser, file) as light, opened(browser, file, theme="dark") as dark:
        colours = _background(light.page), _background(dark.page)
        assert colours[0] != colours[1]
        light.page.click("#theme")
        assert _background(light.page) == colours[1]
        light.page.click("#theme")
        assert _background(light.page) == colours[0]


def test_its_scripts_run_and_no_others(browser, tmp_path):
    file = tmp_path / "page.html"
    foreign = Html("<p id=hit></p><script>document.getElementById('hit').title = 'ran'</script>")
    made = page("Scripts", foreign, scripts=["document.title += ' of ours'"], data={"a": 1})
    file.write_text(made, "utf-8")
    with opened(browser, file) as there:
        assert there.page.title() == "Scripts of ours"
        assert there.page.get_attribute("#hit", "title") is None
        refused, *others = there.errors
        assert "Content Security Policy" in refused
        there.errors[:] = others


def test_nothing_is_loaded_from_outside(browser, tmp_path):
    file = tmp_path / "page.html"
    outside = Html(
        "<img src='https://example.org/a.png'><script src='//example.org/a.js'></script>"
    )
    file.write_text(page("Loads", outside), "utf-8")
    with opened(browser, file) as there:
        assert len(there.errors) == 2  # both were refused by the page's own policy
        assert all("Content Security Policy" in line for line in there.errors)
        there.errors.clear()
        there.requests.clear()


def test_a_phone_need_not_scroll_sideways(browser, tmp_path):
    file = tmp_path / "page.html"
    file.write_text(page("Long" * 30, section("one", "One", "word " * 200)), "utf-8")
    with opened(browser, file, width=360, height=740) as there:
        assert there.page.evaluate("document.documentElement.scrollWidth") <= 360

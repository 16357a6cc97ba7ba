"""A real browser for pages that people open from disk; `browser` and `Opened` are for all tests."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium without a window, started once; tests are skipped where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("chromium is not installed: apt-get install chromium")
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM)
        yield chromium
        chromium.close()


@dataclass
class Opened:
    """A page that is open, and what it did on its own: requests, errors."""

    page: Any
    requests: list[str] = field(default_factory=list)  # but for the page itself
    errors: list[str] = field(default_factory=list)  # of scripts, and on the console


@contextmanager
def opened(
    browser: Any, file: Path, *, width: int = 1280, height: int = 900, theme: str = "light"
) -> Iterator[Opened]:
    """The page in a file, opened from disk in a window of this size.

    Afterwards it has asked for nothing but itself, and there was no error.
    """
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=theme, reduced_motion="reduce"
    )
    result = Opened(context.new_page())
    page, address = result.page, file.resolve().as_uri()
    page.on("request", lambda request: result.requests.append(request.url))
    page.on("console", lambda line: _note(result.errors, line))
    page.on("pageerror", lambda problem: result.errors.append(str(problem)))
    try:
        page.goto(address)
        yield result
        asked = [url for url in result.requests if url != address and not url.startswith("data:")]
        assert asked == []
        assert result.errors == []
    finally:
        context.close()


def _note(errors: list[str], line: Any) -> None:
    if line.type in ("error", "warning"):
        errors.append(line.text)

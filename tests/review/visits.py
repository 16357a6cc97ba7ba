"""The review page in a real browser."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

PATIENCE = 12_000  # milliseconds: the machine is shared


@dataclass
class Visit:
    """A tab, and what it did on its own."""

    page: Any
    requests: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def wait(self, condition: str, *arguments: Any) -> None:
        """Until a condition in JavaScript holds."""
        self.page.wait_for_function(condition, arg=list(arguments), timeout=PATIENCE)

    def settled(self) -> None:
        """Until all that was decided is on the disk."""
        self.page.wait_for_selector("body[aria-busy=false]")

    def states(self) -> list[str]:
        """What the cards in sight say, in their order."""
        return self.page.eval_on_selector_all(
            ".card",
            "cards => cards.map(card => [Number(card.getAttribute('aria-posinset')), "
            "card.querySelector('.badge').textContent]).sort((a, b) => a[0] - b[0])"
            ".map(pair => pair[1])",
        )

    def until_states(self, *wanted: str) -> None:
        """Until the first cards say this."""
        self.wait(
            "wanted => wanted.every((said, at) => document.querySelector("
            "`.card[aria-posinset='${at + 1}'] .badge`)?.textContent === said)",
            *wanted,
        )

    def counts(self) -> str:
        return self.page.text_content("#counts")

    def images(self) -> list[str]:
        return [url for url in self.requests if "/image/" in url]


def tab(context: Any, address: str) -> Visit:
    """The page, opened in a tab of its own."""
    visit = Visit(context.new_page())
    page = visit.page
    page.set_default_timeout(PATIENCE)
    page.on("request", lambda request: visit.requests.append(request.url))
    page.on("pageerror", lambda problem: visit.errors.append(str(problem)))
    page.on("dialog", lambda dialog: visit.errors.append(dialog.message))
    page.on(
        "console",
        lambda line: visit.errors.append(line.text) if line.type in ("error", "warning") else None,
    )
    page.goto(address)
    page.wait_for_selector("#counts b")
    return visit


@contextmanager
def visited(
    browser: Any, address: str, *, width: int = 1280, height: int = 800, theme: str = "light"
) -> Iterator[Visit]:
    """One tab; afterwards nothing was asked of anybody else, and there was no error."""
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=theme, reduced_motion="reduce"
    )
    try:
        visit = tab(context, address)
        yield visit
        host = urlsplit(address).netloc
        assert {urlsplit(url).netloc for url in visit.requests} == {host}
        assert visit.errors == []
    finally:
        context.close()

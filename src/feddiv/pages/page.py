"""One page in one file: styles, scripts, data and images are inside, and it may load nothing."""

import hashlib
import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, Final

from feddiv.pages.markup import Content, Html, tag

PACKAGE: Final = "feddiv.pages"


def shipped(name: str, package: str = PACKAGE) -> str:
    """A style or a script that lies beside the code."""
    return resources.files(package).joinpath(name).read_text("utf-8")


def page(
    title: str,
    *body: Content,
    subtitle: Content = None,
    contents: Mapping[str, str] | None = None,
    styles: Sequence[str] = (),
    scripts: Sequence[str] = (),
    data: Mapping[str, Any] | None = None,
) -> str:
    """The text of an HTML file.

    `contents` are ids of sections and their names, for the list at the top. `scripts` run in their
    order when the page is there; `data` is JSON that they find by
    `JSON.parse(document.getElementById("data").textContent)`. Only these scripts can run: the
    page's policy has their checksums, so a name that slipped through as a script would do nothing.
    """
    style = "\n".join((shipped("page.css"), *styles))
    runs = [shipped("page.js"), *scripts]
    head = (
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(runs)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", title),
        tag("style", _raw(style, "</style")),
    )
    theme = tag(
        "button", "◐", id="theme", type="button", title="Light or dark", aria_label="Light or dark"
    )
    links = [tag("a", name, href=f"#{place}") for place, name in (contents or {}).items()]
    top = tag("div", tag("h1", title), tag("p", subtitle, class_="subtitle") if subtitle else None)
    parts = (
        tag("header", top, theme),
        tag("nav", links, aria_label="Contents") if links else None,
        tag("main", body),
        _data(data) if data is not None else None,
        [tag("script", _raw(script, "</script")) for script in runs],
    )
    html = tag("html", tag("head", head), tag("body", parts), lang="en")
    return f"<!doctype html>\n{html}\n"


def _policy(scripts: Sequence[str]) -> str:
    sums = (b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{each}'" for each in sums)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _raw(content: str, end: str) -> Html:
    """A style or a script as it is: entities mean nothing inside, only its own end does."""
    if end in content.lower() or "<!--" in content:
        raise ValueError(f"{end} inside would end it")
    return Html(content)


def _data(data: Mapping[str, Any]) -> Html:
    """JSON in which nothing looks like markup; NaN is no JSON, and an error."""
    said = json.dumps(data, allow_nan=False, separators=(",", ":"))
    plain = said.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return tag("script", Html(plain), type="application/json", id="data")

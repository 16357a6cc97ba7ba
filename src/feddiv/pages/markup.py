"""HTML that is safe by construction: whatever is no `Html` is text, and is escaped."""

import re
from collections.abc import Iterable
from html import escape
from typing import Final

from feddiv.core.terminal import shown

_NAME: Final = re.compile(r"[a-z][a-z0-9-]*")
_VOID: Final = frozenset({"br", "hr", "img", "input", "meta"})  # tags that never hold anything
_LINKS: Final = ("#", "data:image/")  # to a place on the page, or an image that is on it


class Html(str):
    """Markup that is complete and escaped."""

    __slots__ = ()


Content = Html | str | int | None | Iterable["Content"]


def text(value: str) -> Html:
    """Text as it is to be read; characters that are not seen or turn the line around are named.

    >>> text("<b>north & south</b>")
    '&lt;b&gt;north &amp; south&lt;/b&gt;'
    """
    return Html("\n".join(escape(shown(line)) for line in value.split("\n")))


def tag(name: str, /, *content: Content, **attributes: str | float | bool | None) -> Html:
    """An element. `class_` is class, other underscores are hyphens; None and False leave one out.

    >>> tag("p", "1 < 2, ", tag("b", "really"), class_="note", hidden=True)
    '<p class="note" hidden>1 &lt; 2, <b>really</b></p>'
    """
    _check_name(name)
    opened = f"<{name}{''.join(_attribute(key, value) for key, value in attributes.items())}>"
    if name in _VOID:
        return Html(opened)
    return Html(f"{opened}{joined(content)}</{name}>")


def joined(content: Content) -> Html:
    """Several pieces one after the other."""
    if content is None:
        return Html()
    if isinstance(content, Html):
        return content
    if isinstance(content, str | int):
        return text(str(content))
    return Html("".join(joined(each) for each in content))


def _attribute(key: str, value: str | float | bool | None) -> str:
    name = key.rstrip("_").replace("_", "-")
    _check_name(name)
    if value is None or value is False:
        return ""
    if value is True:
        return f" {name}"
    said = str(value)
    if name.startswith("on"):
        raise ValueError(f"{name}: a page's script listens by itself")
    if name in ("href", "src") and not said.startswith(_LINKS):
        raise ValueError(f"{name}={said[:60]!r}: a page asks nothing of the network")
    return f' {name}="{text(said)}"'


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name of a tag or an attribute")

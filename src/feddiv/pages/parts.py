"""Parts that pages share: sections, tables, headline figures, images."""

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from feddiv.pages.markup import Content, Html, tag

LONG: Final = 6  # characters of a headline figure that is set smaller


def section(place: str, title: str, *content: Content, note: Content = None) -> Html:
    """A part with a heading; `place` is its id, `note` says in a line what one sees."""
    said = tag("p", note, class_="note") if note else None
    return tag("section", tag("h2", title), said, content, id=place)


def facts(figures: Iterable[Sequence[Content]]) -> Html:
    """Headline figures: (name, value) or (name, value, what it means) each."""
    tiles = []
    for name, value, *meaning in figures:
        below = tag("span", meaning, class_="meaning") if meaning else None
        long = isinstance(value, str) and len(value) > LONG
        large = tag("b", value, class_="long" if long else None)
        shown = large, tag("span", name, class_="name"), below
        tiles.append(tag("div", shown, class_="fact"))
    return tag("div", tiles, class_="facts")


def table(
    columns: Sequence[Content], rows: Iterable[Sequence[Content]], *, numbers: Iterable[int] = ()
) -> Html:
    """A table that scrolls sideways where it does not fit; columns in `numbers` are aligned right.

    A cell is text, or `Html`.
    """
    right = frozenset(numbers)

    def row(kind: str, cells: Sequence[Content]) -> Html:
        classes = ("number" if place in right else None for place in range(len(cells)))
        return tag("tr", [tag(kind, c, class_=k) for c, k in zip(cells, classes, strict=True)])

    head = tag("thead", row("th", columns))
    body = tag("tbody", [row("td", cells) for cells in rows])
    return tag("div", tag("table", head, body), class_="scrolls")


def image(content: bytes, *, alt: str, kind: str = "png", **attributes: str | float | None) -> Html:
    """An image inside the page itself; `kind` is png, jpeg, webp, gif or svg+xml."""
    source = f"data:image/{kind};base64,{b64encode(content).decode()}"
    return tag("img", src=source, alt=alt, loading="lazy", **attributes)


def pairs(values: Mapping[str, Content]) -> Html:
    """Names and what they stand for, one below the other."""
    return tag("dl", [(tag("dt", name), tag("dd", value)) for name, value in values.items()])

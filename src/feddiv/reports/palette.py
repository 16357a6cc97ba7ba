"""Colours that stay with a method on every page and figure, and that the colour-blind tell apart.

Of Okabe and Ito's eight, vermillion is left to wrong labels. Methods that share a colour differ in
how their line is drawn, and so do several runs of one method.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

# On paper, and on a dark screen.
COLOURS: Final = {
    "blue": ("#0072B2", "#3D9DF5"),
    "sky": ("#56B4E9", "#86E0FF"),
    "green": ("#009E73", "#2FC79A"),
    "purple": ("#CC79A7", "#E5A3C8"),
    "orange": ("#E69F00", "#F5B73D"),
    "grey": ("#666666", "#9A9A9A"),
    "black": ("#1A1A1A", "#E8E8E8"),
}
VERMILLION: Final = "#D55E00"  # wrong labels
SLATE: Final = "#9AA5B1"  # right ones
INK, FAINT = "#333333", "#F0F0F0"
DASHES: Final = ("", "6 3", "2 3", "9 3 2 3", "12 4")  # as SVG writes them

_METHODS: Final = {
    "feddiv": ("blue", 0),
    "feddiv-paper": ("sky", 0),
    "fedavg": ("grey", 0),
    "fedprox": ("grey", 1),
    "fedcorr": ("green", 0),
    "jointopt": ("green", 1),
    "fedrn": ("purple", 0),
    "dividemix": ("purple", 1),
    "rofl": ("orange", 0),
    "arfl_residual": ("orange", 1),
    "arfl_auto": ("orange", 2),
}
_OTHERS: Final = {"feddiv": "sky"}  # other variants, by method; methods of others' own are black


@dataclass(frozen=True)
class Style:
    """How a run is drawn: a colour's name, and one of the dashes."""

    colour: str
    dash: int

    @property
    def on_paper(self) -> str:
        """The colour for white ground."""
        return COLOURS[self.colour][0]

    @property
    def dashes(self) -> str:
        """The line, as SVG writes it."""
        return DASHES[self.dash % len(DASHES)]


def styles(methods: Sequence[str]) -> list[Style]:
    """How runs of these methods, by their names with variants, are drawn on one figure."""
    taken: Counter[Style] = Counter()
    chosen = []
    for method in methods:
        name = method.partition("-")[0]
        colour, dash = _METHODS.get(method) or (_OTHERS.get(name) or _plain(name), 0)
        style = Style(colour, dash)
        while taken[style] and style.dash < len(DASHES):
            style = Style(colour, style.dash + 1)
        taken[style] += 1
        chosen.append(style)
    return chosen


def _plain(name: str) -> str:
    known = _METHODS.get(name)
    return "black" if known is None else known[0]

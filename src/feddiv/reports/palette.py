"""Colours that stay with a method on every page and figure, and that the colour-blind tell apart.

Okabe and Ito's, of which vermillion is left to wrong labels, and four that keep away from them.
Variants and several runs of one method share its colour, and differ in line and mark.
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
    "olive": ("#5C5A00", "#8A8A1E"),
    "wine": ("#7A1743", "#C8325F"),
    "indigo": ("#3A2A9E", "#4F5FFF"),
    "violet": ("#A64DFF", "#AA44BB"),
    "black": ("#1A1A1A", "#E8E8E8"),
}
VERMILLION: Final = "#D55E00"  # wrong labels
SLATE: Final = "#9AA5B1"  # right ones
INK, FAINT = "#333333", "#F0F0F0"
# As SVG writes them.
DASHES: Final = ("", "6 3", "2 3", "9 3 2 3", "12 4", "9 3 2 3 2 3", "3 6", "14 3 5 3")
MARKS: Final = ("circle", "square", "triangle", "diamond", "down")

_METHODS: Final = {
    "feddiv": "blue",
    "fedavg": "grey",
    "fedprox": "olive",
    "rofl": "orange",
    "arfl_residual": "sky",
    "arfl_auto": "wine",
    "jointopt": "indigo",
    "dividemix": "violet",
    "fedcorr": "green",
    "fedrn": "purple",
}
_OWN: Final = "black"  # of methods that are others' own


@dataclass(frozen=True)
class Style:
    """How a run is drawn: a colour's name, and which of the dashes and marks."""

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

    @property
    def mark(self) -> str:
        """The shape of its dots."""
        return MARKS[self.dash % len(MARKS)]


def styles(methods: Sequence[str]) -> list[Style]:
    """How runs of these methods, by their names with variants, are drawn on one figure."""
    taken: Counter[Style] = Counter()
    chosen = []
    for method in methods:
        name, _, variant = method.partition("-")
        style = Style(_METHODS.get(name, _OWN), 1 if variant else 0)
        while taken[style] and style.dash < len(DASHES):
            style = Style(style.colour, style.dash + 1)
        taken[style] += 1
        chosen.append(style)
    return chosen

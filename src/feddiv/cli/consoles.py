"""Standard output for people."""

from rich.console import Console

WIDEST = 10_000  # characters: no table is wider


def output() -> Console:
    """A terminal is as wide as it is. A file or another program has no width: no name is cut and no
    line is broken there."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=WIDEST)

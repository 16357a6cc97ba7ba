"""How a download goes on: a bar on a terminal, plain lines elsewhere, both on stderr."""

from typing import Self

import rich.progress
from rich.console import Console

from feddiv.data.published.download import Progress

STEP = 0.1  # a plain line whenever so much more of a file is here


def transfer() -> "PlainTransfer":
    """The display that suits where stderr goes."""
    console = Console(stderr=True, highlight=False)
    return Bars(console) if console.is_terminal else PlainTransfer(console)


class PlainTransfer(Progress):
    """A line for every tenth of a file."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.name, self.size, self.said = "", 1, 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the terminal as it was."""

    def begins(self, name: str, size: int, present: int) -> None:
        """Name the file, once for all tries."""
        again, self.name, self.size, self.said = name == self.name, name, size, present / size
        if again:
            return
        going_on = f", going on at {present / size:.0%}" if present else ""
        self.notes(f"{name}: {size / 1e6:,.1f} MB{going_on}")

    def reaches(self, present: int) -> None:
        """Say so at every step."""
        share = present / self.size
        if share < self.said or share >= min(1.0, self.said + STEP):
            self.said = share
            self.notes(f"{self.name}: {share:.0%}")

    def notes(self, line: str) -> None:
        """Print it."""
        self.console.print(line, soft_wrap=True, markup=False)


class Bars(PlainTransfer):
    """A bar for each file."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self.bars = rich.progress.Progress(
            rich.progress.TextColumn("{task.description}", markup=False),
            rich.progress.BarColumn(bar_width=max(4, min(30, console.width - 80))),
            rich.progress.DownloadColumn(),
            rich.progress.TransferSpeedColumn(),
            rich.progress.TimeRemainingColumn(),
            console=console,
        )
        self.task: rich.progress.TaskID | None = None

    def close(self) -> None:
        """Stop redrawing; the bars stay on the screen."""
        self.bars.stop()

    def begins(self, name: str, size: int, present: int) -> None:
        """A new bar, or the old one again at another try."""
        self.bars.start()
        if self.task is None or name != self.name:
            self.task = self.bars.add_task(name, total=size)
        self.name = name
        self.bars.update(self.task, completed=present)

    def reaches(self, present: int) -> None:
        """Move the bar."""
        if self.task is not None:
            self.bars.update(self.task, completed=present)

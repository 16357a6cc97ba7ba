"""Whoever wants to hear how data is made ready."""


class DataWatcher:
    """Hears of the data; this one does nothing about it."""

    def note(self, line: str) -> None:
        """One line about the data that its owner should know."""

    def prepares(self, what: str, done: int, total: int) -> None:
        """So many of these samples have been made ready."""

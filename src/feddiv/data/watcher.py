"""What is worth saying while data is made ready."""


class DataWatcher:
    """Somebody who is told; this one does not care."""

    def note(self, line: str) -> None:
        """One line about the data that its owner should know."""

    def prepares(self, what: str, done: int, total: int) -> None:
        """So many of these samples have been made ready."""

"""The one kind of error that is the user's to repair, and other ends of a run."""


class UserError(Exception):
    """What the user gave cannot be used: one line with the thing, its value and what is allowed.

    The command line prints it and exits with code 2; nothing has been written by then.
    """


class Note(UserWarning):
    """What a user should know of a run that is possible all the same, in Python.

    The command line prints the same line.
    """


class Diverged(Exception):
    """Training went astray: no number of it can be used. What the run has written stays."""


class WorkerLost(RuntimeError):
    """A worker process dies again and again on the same task."""


class TooFew(RuntimeError):
    """Too few clients could be reached, again and again."""


def in_one_line(problem: Exception) -> str:
    """The kind of an exception and the first line of what it says."""
    said = str(problem).strip().splitlines()
    return f"{type(problem).__name__}: {said[0]}" if said else type(problem).__name__

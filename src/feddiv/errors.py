"""The one kind of error that is the user's to repair."""


class UserError(Exception):
    """A problem with what the user gave: one line that names the thing, the value and what is allowed.

    The command line prints it and exits with code 2; nothing has been written by then.
    """

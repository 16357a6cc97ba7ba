"""The command line: thin, the same verbs as in Python."""

from feddiv.cli.app import main

__all__ = ["main"]

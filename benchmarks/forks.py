"""Jobs in forked processes: what they import is there already, so it costs nothing."""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

Job = Callable[[], object]


class _Output(Protocol):
    def fileno(self) -> int: ...


def forked(job: Job, stdout: _Output, stderr: _Output, prepare: Job = lambda: None) -> int:
    """The process, which ends with the exit code that the job has as a program of its own."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    with suppress(BaseException):
        os.dup2(stdout.fileno(), 1)
        os.dup2(stderr.fileno(), 2)
        # Not closed with what they replace: a fork of a fork has the same numbers.
        sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
        prepare()
        try:
            job()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)

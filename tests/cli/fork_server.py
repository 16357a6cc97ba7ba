"""Commands in forked processes: quick to start, and limited in memory, files and time.

Run as a program it loads the package once, then answers a line of JSON for each command.
"""

import gc
import io
import json
import os
import resource
import signal
import sys
import time
from contextlib import redirect_stdout, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Final

MEMORY: Final = 1 << 30  # bytes that a command may take beyond what the package itself has mapped
FILE: Final = 64 << 20  # bytes of the largest file that it may write
TICK: Final = 0.005
LOADED: Final = (
    "torch",
    "sklearn.datasets",
    "pyarrow.parquet",
    "feddiv.cli.describe",
    "feddiv.cli.prediction",
    "feddiv.deploy.deployment",
    "feddiv.reports.report",
    "feddiv.runs.start_and_resume",
)


def serve() -> None:
    """Load what commands need, then run one for each line that comes in."""
    for name in LOADED:
        import_module(name)
    from feddiv.cli import main

    with redirect_stdout(io.StringIO()), suppress(SystemExit):
        main(["show", "quickstart"])  # what is loaded at first use
    gc.collect()
    gc.freeze()  # forks share memory that nobody touches
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(_ran(json.loads(line), mapped + MEMORY)), flush=True)


def _ran(task: dict[str, Any], memory: int) -> dict[str, Any]:
    started = time.monotonic()
    child = os.fork()
    if child == 0:
        _become(task, memory)
    code = None
    while code is None and time.monotonic() - started < task["seconds"]:
        done, status = os.waitpid(child, os.WNOHANG)
        code = os.waitstatus_to_exitcode(status) if done else None
        time.sleep(TICK)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # also what it started
    if code is None:
        os.waitpid(child, 0)
    return {"code": code, "seconds": time.monotonic() - started}


def _become(task: dict[str, Any], memory: int) -> None:
    """The command itself; it ends with the process."""
    code = 99
    try:
        os.setsid()
        os.chdir(task["folder"])
        os.environ.update(task["environment"])
        for number, name in ((0, os.devnull), (1, task["out"]), (2, task["err"])):
            flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            os.dup2(os.open(name, flags, 0o600), number)
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        resource.setrlimit(resource.RLIMIT_FSIZE, (FILE, FILE))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # writing more is an error then
        from feddiv.cli import main

        arguments = [os.fsdecode(bytes.fromhex(each)) for each in task["arguments"]]
        try:
            main(arguments)
        except SystemExit as end:
            code = int(end.code or 0)
        sys.stdout.flush()
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve()

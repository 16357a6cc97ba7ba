"""What `feddiv deploy demo` costs, against another checkout of feddiv.

    .venv/bin/python benchmarks/deploy_demo.py FOLDER [--repeats 2]

FOLDER is the `src` of the other checkout. Both are run in turn with the same Python and Flower;
seconds are wall-clock and of processors, of all processes of a demonstration together. The
benchmark fails if the models are not the same, bit for bit. On a busy machine the seconds of
processors say more than those of the clock. Linux only.
"""

import argparse
import ctypes
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean

OURS = Path(__file__).parents[1] / "src"
RESULT = Path(__file__).parent / "results" / "deploy_demo.json"
COMMAND = "from feddiv.cli import main; main()"


def processors() -> float:
    """Seconds of all descendants that were waited for, here or by one that was itself."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def demonstration(source: Path) -> tuple[dict[str, float], str]:
    """Seconds, and the hash of the model."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "demo"
        begun, used = time.monotonic(), processors()
        process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, "deploy", "demo", "--out", str(out)],
            env=os.environ | {"PYTHONPATH": str(source)},
            stdout=subprocess.DEVNULL,
        )
        if process.wait():
            sys.exit(f"the demonstration of {source} failed")
        with suppress(ChildProcessError):  # there is none left
            while True:
                os.waitpid(-1, 0)
        seconds = {"wall": time.monotonic() - begun, "cpu": processors() - used}
        summary = json.loads((out / "deployment/server/run/summary.json").read_text())
        return seconds, summary["model_hash"]


def main() -> None:
    """Measure, compare and write."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("before", type=Path)
    arguments.add_argument("--repeats", type=int, default=2)
    chosen = arguments.parse_args()
    # Orphans come to this process: their time would be lost otherwise. (prctl's number for it.)
    ctypes.CDLL(None).prctl(36, 1)
    seconds: dict[str, list[dict[str, float]]] = {"before": [], "after": []}
    hashes = set()
    for _ in range(chosen.repeats):
        for name, source in (("before", chosen.before.resolve()), ("after", OURS)):
            spent, model = demonstration(source)
            hashes.add(model)
            seconds[name].append({kind: round(value, 1) for kind, value in spent.items()})
            print(name, seconds[name][-1], flush=True)
    if len(hashes) > 1:
        sys.exit(f"the models differ: {hashes}")
    ratio = {
        kind: round(
            mean(e[kind] for e in seconds["after"]) / mean(e[kind] for e in seconds["before"]), 2
        )
        for kind in ("wall", "cpu")
    }
    result = {"date": datetime.now(UTC).date().isoformat(), "seconds": seconds, "ratio": ratio}
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    print(ratio)


if __name__ == "__main__":
    main()

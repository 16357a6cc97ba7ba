"""What a round on feature vectors costs: 100 clients of 500 vectors, ten visits a round.

    .venv/bin/python benchmarks/vectors.py [--rounds 20] [--methods fedavg feddiv] [--workers 2]

50,000 made-up vectors of 1,280 features train `mlp` for 5 epochs in batches of 10, with half of the
clients' labels wrong; 10,000 more are predicted after every round. Prints the median seconds of a
round and of its evaluation, and the processor's seconds of a round over all processes: these hardly
depend on what else the machine does.
"""

import argparse
import json
import os
import resource
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from made_up import write_vectors

import feddiv
from feddiv.runs.start_and_resume import Watcher

RESULTS = Path(__file__).parent / "results"
TICK = os.sysconf("SC_CLK_TCK")
CELL = 1000  # rounds of a published cell


def processor_seconds() -> float:
    """Of this process and of its workers."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    total, me = usage.ru_utime + usage.ru_stime, os.getpid()
    for child in Path(f"/proc/{me}/task/{me}/children").read_text().split():
        fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
        total += (int(fields[11]) + int(fields[12])) / TICK
    return total


class Clock(Watcher):
    """Notes both times after every round."""

    def __init__(self) -> None:
        self.times: list[tuple[float, float]] = []

    def round(self, line: dict[str, Any]) -> None:
        """A round is over, evaluation and record included."""
        self.times.append((time.perf_counter(), processor_seconds()))


def measured(method: str, data: Path, rounds: int, workers: int) -> dict[str, Any]:
    """One run; the first round, which starts the workers and the filter, is told apart."""
    settings = {
        "data.source": "npz",
        "data.path": str(data),
        "model.name": "mlp",
        "partition.name": "iid",
        "noise.name": "symmetric",
        "noise.rho": 0.5,
        "clients.count": 100,
        "clients.fraction": 0.1,
        "rounds": rounds,
        "warmup.iterations": 0,
        "train.epochs": 5,
        "train.batch": 10,
        "method.name": method,
        "against": [],
    }
    clock, started = Clock(), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        run = feddiv.run(None, settings, out=f"{folder}/run", workers=workers, watcher=clock)
    whole, lines = time.perf_counter() - started, run.rounds[1:]
    (first, used), (last, used_in_all) = clock.times[0], clock.times[-1]
    return {
        "method": method,
        "workers": workers,
        "round": statistics.median(line["seconds"] for line in lines),
        "evaluation": statistics.median(line["evaluation_seconds"] for line in lines),
        "all_but_rounds": whole - (last - first),
        "processor": (used_in_all - used) / len(lines),
        "estimate": whole - (last - first) + (CELL - 1) * (last - first) / len(lines),
        "model_hash": run.summary["model_hash"],
    }


def main() -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--methods", nargs="+", default=["fedavg", "feddiv"])
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "vectors.npz"
        write_vectors(data, train=50_000, test=10_000)
        found = [
            measured(method, data, options.rounds, options.workers) for method in options.methods
        ]
    print("| method | s a round | of evaluation | processor, s a round | 1,000 rounds, min |")
    print("| --- | --- | --- | --- | --- |")
    for each in found:
        times = f"{each['round']:.2f} | {each['evaluation']:.3f} | {each['processor']:.2f}"
        print(f"| {each['method']} | {times} | {each['estimate'] / 60:.1f} |")
    kept = {
        "command": " ".join(["benchmarks/vectors.py", *sys.argv[1:]]),
        "date": datetime.now(UTC).date().isoformat(),
        "runs": found,
    }
    (RESULTS / "vectors.json").write_text(json.dumps(kept, indent=2) + "\n")


if __name__ == "__main__":
    main()

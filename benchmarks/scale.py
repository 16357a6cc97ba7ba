"""What many clients cost: rounds per second and memory at 100, 1,000 and 10,000 clients.

    .venv/bin/python benchmarks/scale.py [--rounds 10] [--clients 100 1000 10000]

Each setting trains FedDiv on all 50,000 CIFAR-10 images, dealt to that many clients, 50 visits a
round, in a process of its own with two workers. Memory is what the process and its workers hold
together, shared pages counted once (PSS), at its peak. Then a million cached filters of the
paper's kind are aggregated, and as many histograms. CIFAR-10 is read from FEDDIV_DATA.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"
VISITS = 50


def settings(clients: int, rounds: int) -> list[str]:
    """The experiment: the same images and the same number of visits for any number of clients."""
    return [
        "cifar10-laptop",
        "data.images=50000",
        f"clients.count={clients}",
        f"clients.fraction={VISITS / clients}",
        f"rounds={rounds}",
        "warmup.iterations=0",
        "train.epochs=1",
        f"evaluation.every={rounds}",
        "against=[]",
    ]


def proportional_memory(pid: int) -> int:
    """Bytes of a process and its children, shared pages divided among those who share them."""
    total = 0
    children = Path(f"/proc/{pid}/task/{pid}/children")
    for each in [pid, *map(int, children.read_text().split())]:
        for line in Path(f"/proc/{each}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1]) * 1024
    return total


def measured(clients: int, rounds: int) -> dict[str, Any]:
    """One setting by the real command."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        command = [sys.executable, "-m", "feddiv", "run", *settings(clients, rounds)]
        process = subprocess.Popen([*command, "--out", str(out), "--workers", "2", "--quiet"])
        peak, done = 0, threading.Event()

        def sample() -> None:
            nonlocal peak
            while not done.wait(0.2):
                try:
                    peak = max(peak, proportional_memory(process.pid))
                except (OSError, ValueError):
                    continue  # a process ended while it was looked at

        thread = threading.Thread(target=sample)
        thread.start()
        code = process.wait()
        done.set()
        thread.join()
        if code:
            raise SystemExit(code)
        lines = [json.loads(line) for line in (out / "rounds.jsonl").read_text().splitlines()]
    later = lines[1:]  # the first round also asks every client for its scores
    return {
        "clients": clients,
        "rounds_per_second": len(later) / sum(line["seconds"] for line in later),
        "first_round_seconds": lines[0]["seconds"],
        "peak_bytes": peak,
    }


def aggregated(clients: int) -> dict[str, Any]:
    """A million mixtures in one vector operation, and histograms through a running total."""
    from feddiv.methods.feddiv.filter import BINS, FilterOptions, NoiseFilter
    from feddiv.methods.feddiv.filter_server import Ledger

    rng = np.random.default_rng(0)
    paper = FilterOptions(
        score="cross_entropy", scale="minmax", debias="none", aggregate="mean", fit="local",
        prior="shared", no_noise_rule=False, second_opinion=False, starved_below=0.0,
    )  # fmt: skip
    ledger = Ledger.empty(clients, 10)
    ledger.mixtures[:] = rng.uniform(0.1, 0.9, (clients, 6))
    ledger.sizes[:] = rng.integers(1, 500, clients)
    held = ledger.mixtures.nbytes + ledger.sizes.nbytes
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    started = time.perf_counter()
    ledger.fitted(NoiseFilter(paper))
    seconds = time.perf_counter() - started
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before

    totals, change = Ledger.empty(0, 10), {"histogram": rng.integers(0, 9, BINS).astype(float)}
    started = time.perf_counter()
    for client in range(clients // 10):
        totals.add(client, 100, change)
    histograms = (time.perf_counter() - started) * 10
    return {
        "filters": clients,
        "seconds": seconds,
        "bytes_held": held,
        "bytes_more_at_peak": grown,
        "histogram_seconds": histograms,
        "histogram_bytes": totals.histogram.nbytes,
    }


def main() -> None:
    """Measure every size, then aggregation."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--clients", type=int, nargs="+", default=[100, 1000, 10_000])
    options = parser.parse_args()
    rows = []
    print("| clients | rounds/s | first round, s | peak memory, MB |\n| --- | --- | --- | --- |")
    for clients in options.clients:
        row = measured(clients, options.rounds)
        rows.append(row)
        print(
            f"| {clients:,} | {row['rounds_per_second']:.2f} | {row['first_round_seconds']:.1f} "
            f"| {row['peak_bytes'] / 1e6:.0f} |",
            flush=True,
        )
    million = aggregated(1_000_000)
    print(
        f"\n1,000,000 filters: {million['seconds']:.3f} s, "
        f"{million['bytes_held'] / 1e6:.0f} MB held, "
        f"{million['bytes_more_at_peak'] / 1e6:.0f} MB more at the peak; 1,000,000 histograms: "
        f"{million['histogram_seconds']:.1f} s "
        f"through a total of {million['histogram_bytes']} bytes"
    )
    kept = {
        "command": f"benchmarks/scale.py --rounds {options.rounds}",
        "date": datetime.now(UTC).date().isoformat(),
        "clients": rows,
        "aggregation": million,
    }
    (RESULTS / "scale.json").write_text(json.dumps(kept, indent=2) + "\n")


if __name__ == "__main__":
    main()

"""What bfloat16 and compilation gain, and what they do to accuracy.

    .venv/bin/python benchmarks/precision.py [--model cnn] [--images 2000] [--rounds 8]

FedAvg on CIFAR-10 without noise in one process, the variants in turn, a seed a repeat. The first
two rounds, in which nets are compiled, do not count for speed. CIFAR-10 is read from FEDDIV_DATA.
"""

import argparse
import json
import statistics
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import feddiv

RESULTS = Path(__file__).parent / "results"
VARIANTS: dict[str, dict[str, Any]] = {
    "fp32": {},
    "bf16": {"precision": "bf16"},
    "compiled": {"compile": True},
    "bf16, compiled": {"precision": "bf16", "compile": True},
}


def run(options: argparse.Namespace, variant: str, seed: int) -> tuple[float, float]:
    """Seconds a round, and test accuracy at the end."""
    settings = {
        "method.name": "fedavg",
        "data.source": "cifar10",
        "data.images": options.images,
        "data.test_images": 2000,
        "clients.count": 10,
        "clients.fraction": 0.5,
        "model.name": options.model,
        "train.epochs": 1,
        "rounds": options.rounds,
        "seed": seed,
        "evaluation.every": 1000,
        **VARIANTS[variant],
    }
    with tempfile.TemporaryDirectory() as folder:
        done = feddiv.run(None, settings, out=f"{folder}/run", workers=0)
    seconds = statistics.median(line["seconds"] for line in done.rounds[2:])
    return seconds, done.summary["last_test_accuracy"]


def main() -> None:
    """Measure in turn, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="cnn")
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    found: dict[str, list[tuple[float, float]]] = {variant: [] for variant in VARIANTS}
    for seed in range(options.repeats):
        for variant in VARIANTS:
            found[variant].append(run(options, variant, seed))
    seconds = {variant: statistics.median(s for s, _ in rows) for variant, rows in found.items()}
    print(f"| {options.model} | time relative to fp32 | accuracy, seeds | mean |")
    print("| --- | --- | --- | --- |")
    for variant, rows in found.items():
        accuracy = [a for _, a in rows]
        print(
            f"| {variant} | {seconds[variant] / seconds['fp32']:.2f} "
            f"| {' '.join(f'{a:.3f}' for a in accuracy)} | {statistics.mean(accuracy):.3f} |"
        )
    kept = {
        "command": f"benchmarks/precision.py --model {options.model} --images {options.images} "
        f"--rounds {options.rounds} --repeats {options.repeats}",
        "date": datetime.now(UTC).date().isoformat(),
        "seconds_and_accuracy": found,
    }
    file = RESULTS / f"precision-{options.model}.json"
    file.write_text(json.dumps(kept, indent=2) + "\n")


if __name__ == "__main__":
    main()

"""What many images cost: peak memory of a run on 2,000 and on 20,000 of them.

    .venv/bin/python benchmarks/images.py [--images 2000 20000] [--size 64]

Each size is a generated folder in Clothing1M's layout and one short FedAvg run by the real command,
in a process of its own with two workers and a fresh cache; clients hold 100 images each, 20 of them
take part in a round. Memory is measured at its peak over all processes of the run, twice: all pages
that they map (PSS: shared pages counted once), and those of them that are not files (anonymous and
shared memory), which the kernel could not drop.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

RESULTS = Path(__file__).parent / "results"
CLASSES = 14
TEST_IMAGES = 500
EACH = 100  # images per client
VISITS = 20


def generate(root: Path, images: int, side: int) -> None:
    """A folder in Clothing1M's layout: noisy training images, then clean test images."""
    rng = np.random.default_rng(0)
    keys: dict[str, list[str]] = {"noisy": [], "clean": []}
    labels: dict[str, list[str]] = {"noisy": [], "clean": []}
    for number in range(images + TEST_IMAGES):
        kind = "noisy" if number < images else "clean"
        name = f"images/{number % 100:02}/{number}.jpg"
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        coarse = rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)
        Image.fromarray(coarse).resize((side, side)).save(root / name, quality=80)
        keys[kind].append(name)
        labels[kind].append(f"{name} {number % CLASSES}")
    for file, lines in {
        "noisy_label_kv.txt": labels["noisy"],
        "clean_label_kv.txt": labels["clean"],
        "noisy_train_key_list.txt": keys["noisy"],
        "clean_test_key_list.txt": keys["clean"],
    }.items():
        (root / file).write_text("\n".join(lines) + "\n")


def family(pid: int) -> list[int]:
    """A process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *map(int, children)]


def memory(pid: int) -> tuple[int, int]:
    """Bytes that a process and its children map, and those of them that are not of files."""
    found = {"Pss:": 0, "Pss_Anon:": 0, "Pss_Shmem:": 0}
    for each in family(pid):
        try:
            lines = Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue  # it ended while it was looked at
        for line in lines:
            key, *value = line.split()
            if key in found:
                found[key] += int(value[0]) * 1024
    return found["Pss:"], found["Pss_Anon:"] + found["Pss_Shmem:"]


def peaks(command: list[str], environment: dict[str, str]) -> tuple[int, int]:
    """Run it; the most that it and its children map, and the most of it that is not of files."""
    process = subprocess.Popen(command, env=os.environ | environment, stdout=subprocess.PIPE)
    peak, held, done = 0, 0, threading.Event()

    def sample() -> None:
        nonlocal peak, held
        while not done.wait(0.1):
            try:
                mapped, own = memory(process.pid)
            except OSError:
                continue
            peak, held = max(peak, mapped), max(held, own)

    thread = threading.Thread(target=sample)
    thread.start()
    process.communicate()
    done.set()
    thread.join()
    if process.returncode:
        raise SystemExit(process.returncode)
    return peak, held


def measured(images: int, size: int) -> dict[str, Any]:
    """One size by the real command, the images decoded by it first."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        generate(root / "data", images, size)
        clients = images // EACH
        command = [
            sys.executable, "-m", "feddiv", "run", "data.source=clothing1m",
            f"data.path={root / 'data'}", f"data.size={size}", "method.name=fedavg", "against=[]",
            "noise.name=none", "rounds=3", "warmup.iterations=0", "train.epochs=1",
            f"clients.count={clients}", f"clients.fraction={min(1.0, VISITS / clients)}",
            "--workers", "2", "--quiet", "--out", str(root / "run"),
        ]  # fmt: skip
        peak, held = peaks(command, {"FEDDIV_CACHE": str(root / "cache")})
        stored = sum(file.stat().st_size for file in (root / "cache").rglob("pixels"))
    return {
        "images": images,
        "stored_bytes": stored,
        "peak_bytes": peak,
        "peak_bytes_without_files": held,
    }


def main() -> None:
    """Measure every size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, nargs="+", default=[2_000, 20_000])
    parser.add_argument("--size", type=int, default=64)
    options = parser.parse_args()
    rows = []
    print("| images | pixels on disk, MB | peak memory, MB | of it not files, MB |")
    print("| --- | --- | --- | --- |")
    for images in options.images:
        row = measured(images, options.size)
        rows.append(row)
        print(
            f"| {images:,} | {row['stored_bytes'] / 1e6:.0f} | {row['peak_bytes'] / 1e6:.0f} "
            f"| {row['peak_bytes_without_files'] / 1e6:.0f} |",
            flush=True,
        )
    ratio = rows[-1]["peak_bytes"] / rows[0]["peak_bytes"]
    print(f"\npeak memory, last to first: {ratio:.3f}")
    kept = {
        "command": f"benchmarks/images.py --size {options.size}",
        "date": datetime.now(UTC).date().isoformat(),
        "rows": rows,
        "peak_ratio": ratio,
    }
    (RESULTS / "images.json").write_text(json.dumps(kept, indent=2) + "\n")


if __name__ == "__main__":
    main()

"""What encoding costs beside the encoder itself: time against the bare loop, and peak memory.

    .venv/bin/python benchmarks/encode.py [--encoder effnet_lite0] [--images 2000 8000]

Time: the same batches of random images of 32x32 pixels go through `Encoder.encode` alone and
through the cache (keys, batches, float16, file), in turns of some hundred images, in one process
with one thread. The ratio is of CPU seconds and of wall time, summed over the turns. Memory:
generated images in files, few and many, encoded by the real command with two workers and a fresh
cache; the peak over all its processes, shared pages counted once.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from images import generate, peaks

from feddiv.core import processes
from feddiv.data import DataWatcher
from feddiv.data.encoding.encode import BATCHES, features_of
from feddiv.data.encoding.feature_store import FeatureStore
from feddiv.data.encoding.material import StoredImages
from feddiv.encoders.choice import EncoderChoice
from feddiv.encoders.contract import Encoder
from feddiv.encoders.registry import make_encoder

RESULTS = Path(__file__).parent / "results"
SIDE = 32


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """CPU and wall seconds."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return time.process_time() - cpu, time.perf_counter() - wall


def against_the_bare_loop(encoder: Encoder, turns: int) -> dict[str, float]:
    """Seconds of both, and their ratios."""
    torch.set_num_threads(1)
    processes.usable_cores = lambda: 1
    generator = torch.Generator().manual_seed(0)
    store, count = FeatureStore(encoder), BATCHES * encoder.batch

    def bare(images: torch.Tensor) -> None:
        for batch in torch.split(images, encoder.batch):
            encoder.encode(batch)

    def cached(images: torch.Tensor) -> None:
        features_of(store, StoredImages.of(images, "image"), 1, DataWatcher(), "")

    spent = np.zeros((2, 2))  # bare, cached x CPU, wall
    for turn in range(-1, turns):  # the first is to warm up
        size = (count, SIDE, SIDE, 3)
        images = torch.randint(0, 256, size, dtype=torch.uint8, generator=generator)
        both = [timed(partial(bare, images)), timed(partial(cached, images))]
        if turn >= 0:
            spent += np.array(both)
    each = 1000 / (turns * count)
    return {
        "images": turns * count,
        "bare_ms": round(spent[0, 0] * each, 3),
        "cached_ms": round(spent[1, 0] * each, 3),
        "cpu_ratio": round(float(spent[1, 0] / spent[0, 0]), 3),
        "wall_ratio": round(float(spent[1, 1] / spent[0, 1]), 3),
    }


def memory_of(encoder: str, images: int) -> dict[str, Any]:
    """Peak memory of a run that encodes so many files first."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        generate(root / "data", images, SIDE)
        command = [
            sys.executable, "-m", "feddiv", "run", "data.source=clothing1m",
            f"data.path={root / 'data'}", f"data.size={SIDE}", f"data.encoder={encoder}",
            "model.name=mlp", "method.name=fedavg", "against=[]", "noise.name=none", "rounds=1",
            "warmup.iterations=0", "train.epochs=1", "clients.count=20", "clients.fraction=0.1",
            "--workers", "2", "--quiet", "--out", str(root / "run"),
        ]  # fmt: skip
        peak, held = peaks(command, {"FEDDIV_CACHE": str(root / "cache")})
        stored = sum(file.stat().st_size for file in (root / "cache").rglob("vectors"))
    return {
        "images": images,
        "stored_bytes": stored,
        "peak_bytes": peak,
        "peak_bytes_without_files": held,
    }


def main() -> None:
    """Measure both."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--encoder", default="effnet_lite0")
    parser.add_argument("--images", type=int, nargs="+", default=[2_000, 8_000])
    parser.add_argument("--turns", type=int, default=12)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FEDDIV_CACHE"] = folder
        encoder = make_encoder(EncoderChoice(options.encoder), SIDE)
        ratio = against_the_bare_loop(encoder, options.turns)
    print(ratio, flush=True)
    rows = []
    for images in options.images:
        rows.append(memory_of(options.encoder, images))
        print(rows[-1], flush=True)
    kept = {
        "command": f"benchmarks/encode.py --encoder {options.encoder}",
        "date": datetime.now(UTC).date().isoformat(),
        "size": encoder.choice.size,
        "time": ratio,
        "memory": rows,
    }
    (RESULTS / "encode.json").write_text(json.dumps(kept, indent=2) + "\n")


if __name__ == "__main__":
    main()

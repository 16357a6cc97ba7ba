"""Made-up feature vectors, as an encoder might give them: for measurements of speed.

    .venv/bin/python benchmarks/made_up.py FILE.npz

writes 50,000 to train with and 10,000 to test on.
"""

import sys
from pathlib import Path

import numpy as np

FEATURES, CLASSES = 1280, 10


def write_vectors(file: Path, train: int, test: int) -> None:
    """An .npz file of so many vectors: a centre for each class, and noise around it."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((CLASSES, FEATURES), dtype=np.float32)
    arrays = {}
    for suffix, count in (("", train), ("_test", test)):
        labels = rng.integers(0, CLASSES, count)
        noise = rng.standard_normal((count, FEATURES), dtype=np.float32)
        arrays |= {f"x{suffix}": noise + np.float32(0.1) * centres[labels], f"y{suffix}": labels}
    np.savez(file, **arrays)


if __name__ == "__main__":
    write_vectors(Path(sys.argv[1]), train=50_000, test=10_000)

"""Generated images for tests: one colour each, so that a reader knows every pixel."""

from pathlib import Path

import numpy as np
from PIL import Image

from feddiv.core.randomness import Streams
from feddiv.data import DataOptions, Dataset, DataWatcher, load_dataset

RED, GREEN, BLUE = (200, 0, 0), (0, 200, 0), (0, 0, 200)


def picture(path: Path, colour: tuple[int, int, int] = RED, size: tuple[int, int] = (9, 7)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)
    return path


def class_folders(root: Path, count: int = 10, classes: str = "ab") -> Path:
    """`count` images of each class; the red of an image is its number."""
    for number, name in enumerate(classes):
        for image in range(count):
            picture(root / name / f"{image:02}.png", (image, 50 * number, 0))
    return root


class Listener(DataWatcher):
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.steps: list[tuple[str, int, int]] = []

    def note(self, line: str) -> None:
        assert "\n" not in line
        self.notes.append(line)

    def prepares(self, what: str, done: int, total: int) -> None:
        self.steps.append((what, done, total))

    def said(self, words: str) -> str:
        """The one note that has these words."""
        (found,) = [note for note in self.notes if words in note]
        return found


def load(seed: int = 0, listener: Listener | None = None, **options: object) -> Dataset:
    options.setdefault("size", 8)
    return load_dataset(DataOptions.model_validate(options), Streams(seed), listener)


def reds(inputs: object) -> list[int]:
    """The red of every image's middle pixel."""
    return np.asarray(inputs)[:, 4, 4, 0].tolist()

"""Three made-up hospitals: real digits in class folders, some of them in the wrong one."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from feddiv.data.data_options import DataOptions
from feddiv.data.dataset import Dataset, Split
from feddiv.data.sources.digits import load

_SEED = 7


@dataclass(frozen=True)
class Habit:
    """How many images a site has, what share of its labels is wrong, and a class it never saw."""

    images: int
    wrong: float
    lacks: str | None = None


HABITS: Mapping[str, Habit] = {
    "north": Habit(images=350, wrong=0.0),
    "south": Habit(images=430, wrong=0.25),
    "east": Habit(images=520, wrong=0.6, lacks="7"),
}


@dataclass(frozen=True)
class DemoSite:
    """A site's folder, and what only the demonstration knows: which of its labels are wrong."""

    name: str
    data: Path
    images: int
    wrong: frozenset[str]  # paths from the folder


@dataclass(frozen=True)
class DemoData:
    """The sites, a test folder for the server, and what the experiment says about the images."""

    sites: tuple[DemoSite, ...]
    test: Path
    classes: tuple[str, ...]
    size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]


def write_demo_data(folder: Path) -> DemoData:
    """The same folders every time."""
    digits = load(DataOptions(source="digits"))
    rng = np.random.default_rng(_SEED)
    order = rng.permutation(len(digits.train.labels))
    sites, begin = [], 0
    for name, habit in HABITS.items():
        # A site with a gap in its classes leaves those images to nobody.
        mine = order[begin : begin + habit.images]
        begin += habit.images
        sites.append(_site(folder / name, digits, mine, habit, rng))
    _write_images(
        folder / "test",
        digits,
        digits.test,
        np.arange(len(digits.test.labels)),
        _labels(digits.test),
    )
    return DemoData(
        sites=tuple(sites),
        test=folder / "test",
        classes=digits.classes,
        size=digits.train.inputs.shape[1],
        mean=digits.mean,
        std=digits.std,
    )


def _site(
    folder: Path,
    digits: Dataset,
    mine: npt.NDArray[np.int64],
    habit: Habit,
    rng: np.random.Generator,
) -> DemoSite:
    truth = _labels(digits.train)[mine]
    allowed = np.array([n for n, name in enumerate(digits.classes) if name != habit.lacks])
    kept = np.isin(truth, allowed)
    mine, truth = mine[kept], truth[kept]
    given = truth.copy()
    for at in rng.choice(len(mine), round(habit.wrong * len(mine)), replace=False):
        given[at] = rng.choice(allowed[allowed != truth[at]])
    paths = _write_images(folder, digits, digits.train, mine, given)
    wrong = frozenset(path for path, t, g in zip(paths, truth, given, strict=True) if t != g)
    return DemoSite(folder.name, folder, len(mine), wrong)


def _labels(split: Split) -> npt.NDArray[np.int64]:
    labels: npt.NDArray[np.int64] = split.labels.numpy()
    return labels


def _write_images(
    folder: Path,
    digits: Dataset,
    split: Split,
    which: npt.NDArray[np.int64],
    given: npt.NDArray[np.int64],
) -> list[str]:
    """Each image into the folder of its given label; gives their paths from the folder."""
    paths = []
    for index, label in zip(which, given, strict=True):
        path = folder / digits.classes[label] / f"{index:04d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(split.inputs[index].numpy()[..., 0], mode="L").save(path)
        paths.append(path.relative_to(folder).as_posix())
    return paths

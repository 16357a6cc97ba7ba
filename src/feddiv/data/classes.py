"""Data in classes that somebody else has put in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from feddiv.core.errors import UserError
from feddiv.data.dataset import Dataset, Split


class UnknownClass(UserError):
    """Data in a class that is not among the given ones."""

    def __init__(self, name: str, classes: tuple[str, ...], where: str) -> None:
        self.classes = classes
        super().__init__(
            f"{where}: class {name!r} is none of the run's, which are {', '.join(classes)}"
        )


def check_several(classes: Sequence[str], where: str) -> None:
    """Refuse to learn from data in which there is nothing to tell apart."""
    if len(classes) < 2:
        raise UserError(f"{where}: only one class, {classes[0]}; at least 2 are needed")


def in_these_classes(dataset: Dataset, classes: tuple[str, ...], where: str) -> Dataset:
    """The same samples, labelled by the numbers that their classes' names have in `classes`.

    Classes that the data lack are fine; a class that is not among them is not.
    """
    unknown = [name for name in dataset.classes if name not in classes]
    if unknown:
        raise UnknownClass(unknown[0], classes, where)
    numbers = torch.tensor([classes.index(name) for name in dataset.classes])

    def mapped(split: Split) -> Split:
        return replace(split, labels=numbers[split.labels])

    truth = dataset.truth
    return replace(
        dataset,
        classes=classes,
        train=mapped(dataset.train),
        test=mapped(dataset.test),
        truth=None if truth is None else _known(numbers, truth),
    )


def _known(numbers: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    """True labels in the new numbers; -1 stays, for samples of none of the classes."""
    return torch.where(truth >= 0, numbers[truth.clamp_min(0)], truth)

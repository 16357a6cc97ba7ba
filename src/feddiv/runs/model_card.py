"""What a trained model's file says beside its weights."""

import math
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from feddiv.nets.net_options import Stem

LARGEST_INPUT: Final = 1 << 24  # numbers of one sample


@dataclass(frozen=True)
class ModelCard:
    """What one needs beside the weights to predict with them.

    `columns` are those of the table that it was trained on, in order: of features, or of paths of
    images. Empty where there was none, and in models of earlier versions. `opinion` is what clients
    received beside the model to judge their labels: numbers by name; FedDiv's filter is in it.
    """

    net: str
    input_shape: tuple[int, ...]
    classes: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    method: dict[str, Any]
    stem: Stem | None = None
    as_they_are: bool = False  # samples are what the net eats already
    columns: tuple[str, ...] = ()
    opinion: dict[str, Any] = field(default_factory=dict)

    def check(self) -> None:
        """Refuse what no run has written: a header may be somebody else's."""
        texts = (self.net, *self.classes, *self.columns)
        if not all(isinstance(text, str) for text in texts) or not self.classes:
            raise ValueError("names that are no texts")
        if not all(type(size) is int and size > 0 for size in self.input_shape):
            raise ValueError("input_shape is no shape")
        if not self.input_shape or math.prod(self.input_shape) > LARGEST_INPUT:
            raise ValueError(f"input_shape is of more than {LARGEST_INPUT:,} numbers")
        if not all(type(each) in (int, float) and math.isfinite(each) for each in self._scaling):
            raise ValueError("mean and std are no numbers")
        if not isinstance(self.method, dict) or not isinstance(self.method.get("name"), str):
            raise ValueError("method has no name")
        self.payload()

    def payload(self) -> dict[str, npt.NDArray[np.float64]]:
        """What clients received to judge their labels, beside the model."""
        if not isinstance(self.opinion, dict):
            raise ValueError("opinion is no set of numbers")
        numbers = {str(name): np.asarray(value, np.float64) for name, value in self.opinion.items()}
        if not all(np.isfinite(value).all() for value in numbers.values()):
            raise ValueError("opinion holds a value that is not finite")
        return numbers

    @property
    def _scaling(self) -> tuple[float, ...]:
        return (*self.mean, *self.std)

    @property
    def takes_images(self) -> bool:
        """Whether samples are images that files hold."""
        return len(self.input_shape) == 3 and not self.as_they_are

"""What a trained model's file says beside its weights."""

import math
from dataclasses import dataclass
from typing import Any, Final

from feddiv.nets.net_options import FOR_SOME, ModelOptions, Norm, Stem

LARGEST_INPUT: Final = 1 << 24  # numbers of one sample


@dataclass(frozen=True)
class ModelCard:
    """What one needs beside the weights to predict with them.

    `columns` are those of the table that it was trained on, in order: of features, or of paths of
    images. Empty where there was none, and in models of earlier versions.
    """

    net: str
    input_shape: tuple[int, ...]
    classes: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    method: dict[str, Any]
    stem: Stem | None = None
    hidden: int | None = None  # this and the next three of an MLP, None as usual for it
    layers: int | None = None
    dropout: float | None = None
    norm: Norm | None = None
    as_they_are: bool = False  # samples are what the net eats already
    columns: tuple[str, ...] = ()

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

    @property
    def model(self) -> ModelOptions:
        """How its net is built."""
        return ModelOptions(name=self.net, **{key: getattr(self, key) for key in FOR_SOME})

    @property
    def _scaling(self) -> tuple[float, ...]:
        return (*self.mean, *self.std)

    @property
    def takes_images(self) -> bool:
        """Whether samples are images that files hold."""
        return len(self.input_shape) == 3 and not self.as_they_are

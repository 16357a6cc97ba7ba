"""What a trained model's file says beside its weights."""

from dataclasses import dataclass
from typing import Any

from feddiv.nets.net_options import Stem


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
    as_they_are: bool = False  # samples are what the net eats already
    columns: tuple[str, ...] = ()

    @property
    def takes_images(self) -> bool:
        """Whether samples are images that files hold."""
        return len(self.input_shape) == 3 and not self.as_they_are

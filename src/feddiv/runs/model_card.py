"""What a trained model's file says beside its weights."""

import math
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from pydantic import ValidationError

from feddiv.data.data_options import DataOptions
from feddiv.encoders.choice import EncoderChoice
from feddiv.nets.net_options import FOR_SOME, ModelOptions, Norm, Stem

LARGEST_INPUT: Final = 1 << 24  # numbers of one sample


@dataclass(frozen=True)
class ModelCard:
    """What one needs beside the weights to predict with them.

    `columns` are those of the table that it was trained on, in order: of features, or of paths of
    images. Empty where there was none, and in models of earlier versions. Where the net takes what
    an encoder makes of images or texts, `encoder` is which, with the sha256 of its weights, and
    `image_shape` the (height, width, channels) of the images that the encoder takes, None of texts.
    `opinion` is what clients received beside the model to judge their labels: numbers by name;
    FedDiv's filter is in it.
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
    encoder: EncoderChoice | None = None
    image_shape: tuple[int, int, int] | None = None
    opinion: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of_header(cls, fields: dict[str, Any]) -> "ModelCard":
        """What a file's header says, found to be possible."""
        card = cls(**_with_tuples(fields))
        if card.encoder is not None:
            card = replace(card, encoder=_choice(card.encoder))
        card.check()
        return card

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
        if self.encoder is None and self.image_shape is not None:
            raise ValueError("image_shape without an encoder")
        if self.encoder is not None:
            self._check_encoder(self.encoder)
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

    def _check_encoder(self, encoder: EncoderChoice) -> None:
        if encoder.sha256 is None:
            raise ValueError("encoder has no sha256")
        if len(self.input_shape) != 1:
            raise ValueError("an encoder gives vectors, and input_shape is that of none")
        of_images = (encoder.size, encoder.mean, encoder.std)
        if self.image_shape is None:
            if of_images != (None, None, None):
                raise ValueError("encoder is of texts, and has size, mean or std of images")
            return
        shape = self.image_shape
        sizes = shape if isinstance(shape, tuple) else ()
        if len(sizes) != 3 or not all(type(each) is int and 0 < each <= 4096 for each in sizes):
            raise ValueError("encoder's images have no size")
        if not all(of_images):
            raise ValueError("encoder has no size, mean or std of images")

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
        is_image = len(self.input_shape) == 3 and not self.as_they_are
        return is_image or self.image_shape is not None

    @property
    def takes_texts(self) -> bool:
        """Whether samples are texts, which an encoder makes vectors of."""
        return self.encoder is not None and self.image_shape is None

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """One sample as it is given: (height, width, channels) of images, else as the net's."""
        if self.image_shape is not None:
            return self.image_shape
        shape = self.input_shape
        return (*shape[1:], shape[0]) if self.takes_images else shape


def _choice(fields: Any) -> EncoderChoice:
    """The encoder that a header names, with values that the settings `data.encoder…` may have."""
    if not isinstance(fields, dict):
        raise ValueError("encoder is no table")
    keys = {"name": "encoder"}
    try:
        options = DataOptions(**{keys.get(key, f"encoder_{key}"): fields[key] for key in fields})
    except ValidationError as error:
        found = error.errors()[0]
        raise ValueError(f"{found['loc'][0]}: {found['msg']}") from None
    if options.encoding is None:
        raise ValueError("encoder has no name")
    return options.encoding


def _with_tuples(fields: dict[str, Any]) -> dict[str, Any]:
    """JSON has lists only."""
    return {
        key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()
    }

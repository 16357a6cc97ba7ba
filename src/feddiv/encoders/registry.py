"""The encoders there are, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from feddiv.core.did_you_mean import did_you_mean
from feddiv.core.errors import UserError
from feddiv.core.import_path import import_from, is_import_path

if TYPE_CHECKING:
    from feddiv.encoders.choice import EncoderChoice, Kind
    from feddiv.encoders.contract import Encoder


class OtherWeights(UserError):
    """The encoder here is not the one of the run, or of the model."""


@dataclass(frozen=True)
class EncoderEntry:
    """An encoder by name: what it encodes (None: its file says), one line on it, where it is made.

    At `path` is a function `(choice: EncoderChoice, side: int | None) -> Encoder`; `side` is that
    of the source's images in pixels, None for texts and for images in files, which are read in the
    size that the encoder wants. It is imported when an encoder is made: torch takes seconds.
    """

    kind: Kind | None
    summary: str
    path: str


ENCODERS: Final[Mapping[str, EncoderEntry]] = {
    "effnet_lite0": EncoderEntry(
        "images",
        "EfficientNet-Lite0 with ImageNet weights, 1,280 features; feddiv[encoders], no download",
        "feddiv.encoders.effnet_lite:make",
    ),
    "wordllama": EncoderEntry(
        "texts",
        "WordLlama, the mean of token vectors, 256 features; feddiv[encoders], no download",
        "feddiv.encoders.wordllama:make",
    ),
}
# Encoders that are no names of ours: how to write them, what they are, and where they are made.
ONNX: Final = EncoderEntry(
    None,
    "a net in an ONNX file, for texts with its tokenizer.json beside it, run by feddiv[encoders]",
    "feddiv.encoders.onnx_file:make",
)
SENTENCES: Final = EncoderEntry(
    "texts",
    "a model of sentence-transformers, where that is installed",
    "feddiv.encoders.sentence_transformer:make",
)
TIMM: Final = EncoderEntry(
    "images", "a pretrained net of timm, where that is installed", "feddiv.encoders.timm_net:make"
)
OWN: Final = EncoderEntry(
    "images", "a torch module of your own", "feddiv.encoders.torch_module:make"
)
FORMS: Final[Mapping[str, EncoderEntry]] = {
    "FILE.onnx": ONNX,
    "timm:NAME": TIMM,
    "sentence-transformers:NAME": SENTENCES,
    "package.module:factory": OWN,
}


def find_encoder(name: str) -> EncoderEntry:
    """The encoder of this name, file or import path."""
    if name in ENCODERS:
        return ENCODERS[name]
    if is_onnx_file(name):
        return ONNX
    if name.startswith("timm:"):
        return TIMM
    if name.startswith("sentence-transformers:"):
        return SENTENCES
    if is_import_path(name):
        return OWN
    raise UserError(
        f"data.encoder={name!r} is no encoder{did_you_mean(name, ENCODERS)}; there are "
        f"{', '.join([*ENCODERS, *FORMS])}"
    )


def is_onnx_file(name: str) -> bool:
    """Whether an encoder's name is that of a file."""
    return Path(name).suffix.lower() == ".onnx"


def make_encoder(choice: EncoderChoice, side: int | None) -> Encoder:
    """The encoder of this choice, for images of this side; refused where its weights are others."""
    encoder: Encoder = import_from(find_encoder(choice.name).path)(choice, side)
    if choice.sha256 is not None and encoder.sha256 != choice.sha256.lower():
        raise OtherWeights(
            f"data.encoder={choice.name}: its weights are others than those of this run (sha256 "
            f"{encoder.sha256}, data.encoder_sha256={choice.sha256})"
        )
    return encoder

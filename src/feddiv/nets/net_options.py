"""The nets there are, by name, and how a user chooses among them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field, field_validator

from feddiv.core.did_you_mean import did_you_mean
from feddiv.core.errors import UserError
from feddiv.core.import_path import is_import_path
from feddiv.core.options import GivenPath, Options
from feddiv.core.weights import weights_sha256

Stem = Literal["cifar", "imagenet"]
Norm = Literal["none", "layer", "batch"]


@dataclass(frozen=True)
class NetEntry:
    """A net by name: one line on what it is, and where its `NetBuild` is found.

    It is imported when it is built, because torch takes seconds to load.
    """

    summary: str
    path: str


NETS: Mapping[str, NetEntry] = {
    "mlp": NetEntry(
        "two hidden layers of 128, or others; takes images and feature vectors",
        "feddiv.nets.mlp:MLP",
    ),
    "linear": NetEntry(
        "one linear layer; takes images and feature vectors", "feddiv.nets.linear:LINEAR"
    ),
    "cnn": NetEntry(
        "three small conv blocks (two below 16 pixels), 95k parameters", "feddiv.nets.cnn:CNN"
    ),
    "resnet18": NetEntry(
        "ResNet-18 with CIFAR stem (or model.stem=imagenet), 11.2M parameters",
        "feddiv.nets.resnet:RESNET18",
    ),
    "resnet34": NetEntry(
        "ResNet-34 with CIFAR stem (or model.stem=imagenet), 21.3M parameters",
        "feddiv.nets.resnet:RESNET34",
    ),
    "resnet50": NetEntry(
        "ResNet-50 as for ImageNet (or model.stem=cifar), 23.5M parameters and head",
        "feddiv.nets.resnet:RESNET50",
    ),
    "predictions": NetEntry(
        "none: every site brings what its own classifier says; for method.name=feddiv-audit",
        "feddiv.nets.predictions:PREDICTIONS",
    ),
}

FOR_SOME = ("stem", "hidden", "layers", "dropout", "norm")  # options that not every net looks at


def check_net_name(name: str) -> None:
    """Refuse a name that is none of ours and no import path."""
    if name not in NETS and not is_import_path(name):
        raise UserError(
            f"model.name={name!r} is no net{did_you_mean(name, NETS)}; there are "
            f"{', '.join(NETS)}, and import paths 'package.module:factory'"
        )


class ModelOptions(Options):
    """Which net to train: `name` is one of `feddiv list models`, or "package.module:factory".

    `stem` chooses how a ResNet begins, by default as usual for it; the options after it are for
    `mlp`. `weights` is a file of published weights to start from, or "none"; `sha256` says which
    file that is, and is filled in when a run begins.
    """

    name: str = "cnn"
    stem: Stem | None = None
    hidden: int | None = Field(None, ge=1, le=100_000)  # width of a hidden layer, by default 128
    layers: int | None = Field(None, ge=1, le=100)  # hidden ones, by default 2
    dropout: float | None = Field(None, ge=0, lt=1)  # share of hidden units, by default 0
    norm: Norm | None = None  # before each ReLU, by default none
    weights: GivenPath | None = None
    sha256: str | None = Field(default=None, pattern="^[0-9a-fA-F]{64}$")

    @field_validator("weights", mode="before")
    @classmethod
    def _none(cls, value: object) -> object:
        """TOML has no null, and a preset may have a file to be done without."""
        return None if value == "none" else value

    @property
    def is_brought(self) -> bool:
        """Whether there is no net, but predictions that every client brings."""
        return self.name == "predictions"

    @property
    def architecture(self) -> dict[str, Any]:
        """What tells this net from others of its name, as far as it is set."""
        return self.model_dump(include=set(FOR_SOME), exclude_none=True)

    @property
    def untrained(self) -> ModelOptions:
        """The same net without the weights it starts from: what a trained model is loaded into."""
        return self.model_copy(update={"weights": None, "sha256": None})

    def pinned(self) -> ModelOptions:
        """The same, saying which file the weights are."""
        if self.weights is None or self.sha256 is not None:
            return self
        return self.model_copy(update={"sha256": weights_sha256(self.weights)})

"""Wrong labels on purpose: synthetic label noise, different at every client."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from feddiv.options import Options

Labels = npt.NDArray[np.int64]
Levels = npt.NDArray[np.float64]


class NoiseOptions(Options, ABC):
    """A rule that corrupts the clients' labels."""

    name: str

    @property
    @abstractmethod
    def injects(self) -> bool:
        """Whether any label can change, so that labels as they were count as the truth."""

    @abstractmethod
    def corrupt(
        self,
        labels: Labels,
        parts: Sequence[npt.NDArray[np.int64]],
        classes: int,
        rng: np.random.Generator,
    ) -> tuple[Labels, Levels]:
        """The given labels of all samples, and each client's corruption probability."""


class NoNoise(NoiseOptions):
    """Labels stay as the source gives them."""

    name: Literal["none"] = "none"

    @property
    def injects(self) -> bool:
        """Never."""
        return False

    def corrupt(
        self,
        labels: Labels,
        parts: Sequence[npt.NDArray[np.int64]],
        classes: int,
        rng: np.random.Generator,
    ) -> tuple[Labels, Levels]:
        """A copy of the labels, level 0 everywhere."""
        return labels.astype(np.int64), np.zeros(len(parts))


class Symmetric(NoiseOptions):
    """A share rho of the clients replaces labels by uniform draws, each at a level above tau.

    `classes="first_ten"` draws only from classes 0-9 whatever their number: what the released
    code of FedDiv and FedCorr does, needed to compare with published CIFAR-100 numbers.
    """

    name: Literal["symmetric"] = "symmetric"
    rho: float = Field(default=0.0, ge=0, le=1)
    tau: float = Field(default=0.0, ge=0, le=1)
    classes: Literal["all", "first_ten"] = "all"

    @property
    def injects(self) -> bool:
        """With rho=0 no client is noisy."""
        return self.rho > 0

    def corrupt(
        self,
        labels: Labels,
        parts: Sequence[npt.NDArray[np.int64]],
        classes: int,
        rng: np.random.Generator,
    ) -> tuple[Labels, Levels]:
        """delta_k = b_k (tau + (1 - tau) u_k); each sample is corrupted on its own.

        A corrupted label may draw its own class again, so the share of wrong labels is about
        delta_k (1 - 1/C).
        """
        noisy = rng.random(len(parts)) < self.rho  # b_k
        levels = noisy * (self.tau + (1 - self.tau) * rng.random(len(parts)))  # delta_k
        drawn_from = min(10, classes) if self.classes == "first_ten" else classes
        given = labels.astype(np.int64)
        for part, level in zip(parts, levels, strict=True):
            hit = part[rng.random(len(part)) < level]
            given[hit] = rng.integers(0, drawn_from, size=len(hit))
        return given, levels


NOISES: Final[dict[str, type[NoiseOptions]]] = {
    "none": NoNoise,
    "symmetric": Symmetric,
}

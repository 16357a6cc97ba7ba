"""What every rule that makes labels wrong has in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field, model_validator

from feddiv.core.arrays import Labels, Parts
from feddiv.core.errors import UserError
from feddiv.core.options import Options
from feddiv.data.dataset import Dataset
from feddiv.data.watcher import DataWatcher

Levels = npt.NDArray[np.float64]

# The rules by which clients get their levels, and the keys of each.
RULES: Final[Mapping[str, tuple[str, ...]]] = {
    "bernoulli": ("rho", "tau"),
    "constant": ("level",),
    "ramp": ("low", "high"),
}
Rule = Literal["bernoulli", "constant", "ramp"]
DEFAULT_RULE: Final[Rule] = "bernoulli"


@dataclass(frozen=True, eq=False)
class Foreign:
    """Which samples show an image of another data set.

    `rows` [N] has the other set's training sample, or -1 where a sample shows its own image;
    `fingerprint` is the sha256 of the images that are shown, in order; `images` are they, as long
    as they are at hand.
    """

    source: str
    rows: npt.NDArray[np.int64]
    fingerprint: str
    images: torch.Tensor | None = None

    @property
    def shown(self) -> npt.NDArray[np.bool_]:
        """Which samples [N] show a foreign image: none of the classes is their true one."""
        return np.asarray(self.rows >= 0)


@dataclass(frozen=True, eq=False)
class Corruption:
    """The given labels [N] of all samples; each client's level [K] and kind of noise."""

    given: Labels
    levels: Levels
    kinds: tuple[str, ...]
    foreign: Foreign | None = None

    def check(self, noise: str, samples: int, clients: int) -> None:
        """Refuse what noise of this name made of so many samples at so many clients."""
        counts = {
            "given": (len(self.given), samples),
            "levels": (len(self.levels), clients),
            "kinds": (len(self.kinds), clients),
        }
        for field, (count, wanted) in counts.items():
            if count != wanted:
                raise UserError(f"noise.name={noise}: {field} has {count} entries, not {wanted}")


class NoiseOptions(Options, ABC):
    """A rule that corrupts the clients' labels; `name` is its name or its import path."""

    name: str

    @property
    @abstractmethod
    def injects(self) -> bool:
        """Whether any label can change, so that labels as they were count as the truth."""

    @abstractmethod
    def corrupt(
        self,
        dataset: Dataset,
        parts: Parts,
        rng: np.random.Generator,
        watcher: DataWatcher | None = None,
    ) -> Corruption:
        """Wrong labels for the samples of these clients; all other samples keep theirs.

        `watcher` is told how other data that it needs is made ready.
        """

    def shown(
        self, dataset: Dataset, foreign: Foreign | None, watcher: DataWatcher | None = None
    ) -> Dataset:
        """The data as clients see it: with the foreign images of a draw, where it has any."""
        if foreign is None:
            return dataset
        raise UserError(
            f"draw: {int(foreign.shown.sum())} samples show images of {foreign.source}; "
            f"set noise.name=open_set noise.source={foreign.source} to load them"
        )


class LevelOptions(NoiseOptions):
    """Synthetic noise: how much of it each client has.

    `levels` is the rule. `bernoulli`: each client is noisy with probability `rho`, at a level drawn
    from U(`tau`, 1). `constant`: every client at `level`. `ramp`: from `low` at the first client to
    `high` at the last, in equal steps.
    """

    levels: Rule = DEFAULT_RULE
    rho: float = Field(default=0.0, ge=0, le=1)
    tau: float = Field(default=0.0, ge=0, le=1)
    level: float | None = Field(default=None, ge=0, le=1)
    low: float | None = Field(default=None, ge=0, le=1)
    high: float | None = Field(default=None, ge=0, le=1)

    @model_validator(mode="after")
    def _only_its_own_keys(self) -> LevelOptions:
        own = RULES[self.levels]
        for key in ("level", "low", "high"):
            if (getattr(self, key) is None) == (key in own):
                needs = "is needed with" if key in own else "has no meaning with"
                raise ValueError(f"{key} {needs} levels={self.levels}")
        if self.levels != "bernoulli" and (self.rho or self.tau):
            raise ValueError(f"rho and tau have no meaning with levels={self.levels}")
        return self

    @property
    def injects(self) -> bool:
        """Unless every client's level is 0."""
        return any((self.rho, self.level, self.low, self.high))

    def client_levels(self, clients: int, rng: np.random.Generator) -> Levels:
        """delta_k of each client."""
        if self.levels == "constant":
            return np.full(clients, self.level, np.float64)
        if self.levels == "ramp":
            assert self.low is not None
            assert self.high is not None
            return np.linspace(self.low, self.high, clients)
        noisy = rng.random(clients) < self.rho  # b_k
        return np.asarray(noisy * (self.tau + (1 - self.tau) * rng.random(clients)))

    def kinds(self, levels: Levels) -> tuple[str, ...]:
        """The same kind at every client that has any noise."""
        return tuple(self.name if level > 0 else "none" for level in levels)


def keys_of_other_rules(levels: object) -> set[str]:
    """Keys that have no meaning with this rule for levels."""
    return {key for rule, keys in RULES.items() if rule != levels for key in keys}


def labels_of(dataset: Dataset) -> Labels:
    """A copy of the source's training labels."""
    return np.array(dataset.train.labels.cpu().numpy(), dtype=np.int64)

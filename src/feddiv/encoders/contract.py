"""What an encoder is: samples in, one feature vector for each of them out, always the same.

Whoever adds one gives a subclass of `Encoder` and a line in `registry.py`. The cache
(`data/encoding/`) does the rest: it finds out which samples have been encoded before, hands the
others to `encode` in batches of `batch`, by several processes with one torch thread each, and keeps
the vectors as float16 under `fingerprint`. It never hands over one sample twice.

An encoder of images gets uint8 [n,H,W,C] of one size, C being 1 or 3, as the source has them:
resizing and normalising is its own business. An encoder of texts gets a list of n texts as they are
in the data; tokens, n-grams and cutting are its own business. Either gives float32 [n, width]. It
has to be a function of each sample by itself: no statistics of the batch, no state, no draws. The
object goes to other processes by fork or pickle, so what cannot go there (sessions, threads, locks)
is made at the first `encode`.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import torch

from feddiv.core.errors import UserError
from feddiv.encoders.choice import EncoderChoice, Kind

VERSION: Final = 1  # of the rules by which samples become vectors, for encoders of ours


class NotFinite(UserError):
    """An encoder gives something that is no number for the sample in this row."""

    def __init__(self, encoder: str, row: int, sample: str | None = None) -> None:
        self.encoder, self.row, self.sample = encoder, row, sample
        super().__init__(
            f"data.encoder={encoder}: gives a value that is not finite (or beyond 65,504) for "
            f"{sample or f'sample {row}'}"
        )

    def __reduce__(self) -> tuple[type[NotFinite], tuple[str, int, str | None]]:
        """It comes from another process: an exception would be made again of its line alone."""
        return type(self), (self.encoder, self.row, self.sample)


def taken(samples: Any, rows: npt.NDArray[np.int64]) -> Any:
    """These of some samples: of a tensor of images, or of a list of texts."""
    if isinstance(samples, torch.Tensor):
        return samples[torch.from_numpy(rows)]
    return [samples[row] for row in rows]


def width_of(features: torch.Tensor, choice: EncoderChoice) -> int:
    """How many features there are in each of these [n, width]: one at least."""
    width = features.shape[1]
    if not width:
        raise UserError(f"data.encoder={choice.name}: gives vectors without a single feature")
    return width


class Encoder(ABC):
    """A frozen encoder, ready to be used.

    `choice` is complete: what was None is filled in, as far as it means something to this encoder,
    and `sha256` is that of its weights (of all that is learned, for one without weights of what
    defines it). `width` is D. `batch` is how many samples are encoded together: as many as are fast
    and small (the process shall stay below some 300 MB). `usual_scale` is mean and std of a
    feature, for sites whose samples nobody has seen together.
    """

    kind: ClassVar[Kind]
    choice: EncoderChoice
    width: int
    batch: int = 32
    usual_scale: ClassVar[tuple[float, float]] = (0.0, 1.0)

    @abstractmethod
    def encode(self, samples: Any) -> torch.Tensor:
        """Feature vectors, float32 [n, width], of uint8 images [n,H,W,C] or of a list of texts."""

    def vectors(self, samples: Any) -> torch.Tensor:
        """Feature vectors as they are kept, float16 [n, width], of any number of samples.

        Batches are always full: how many samples go together decides about the last bits.
        """
        parts = [torch.empty((0, self.width), dtype=torch.float16)]
        for start in range(0, len(samples), self.batch):
            some = samples[start : start + self.batch]
            full = taken(some, np.arange(self.batch) % len(some))
            features = self.encode(full)[: len(some)]
            if features.shape[1] != self.width:  # rows of the cache have one length
                raise UserError(
                    f"data.encoder={self.choice.name}: gives {features.shape[1]:,} features for "
                    f"some samples and {self.width:,} for others"
                )
            parts.append(features.to(torch.float16))
        found = torch.cat(parts)
        finite = found.isfinite().all(dim=1)
        if not finite.all():
            raise NotFinite(self.choice.name, int(torch.nonzero(~finite)[0]))
        return found

    @property
    def sha256(self) -> str:
        """sha256 (hex) of the weights."""
        assert self.choice.sha256 is not None
        return self.choice.sha256

    @property
    def rules(self) -> str:
        """Everything but the weights that a vector depends on, as text."""
        choice = self.choice
        return f"{self.kind} {choice.size} {choice.mean} {choice.std} {choice.pooling}"

    @property
    def fingerprint(self) -> str:
        """sha256 (hex) that names the vectors of this encoder: weights and rules, not the views."""
        told = f"{VERSION} {type(self).__name__} {self.sha256} {self.width} {self.rules}"
        return hashlib.sha256(told.encode()).hexdigest()

"""Samples that notice which of them are trained on."""

from dataclasses import dataclass, field

import torch

from feddiv.data import Samples


@dataclass(frozen=True, eq=False)
class Watched(Samples):
    """Samples that know which of them were augmented, as training does."""

    seen: set[int] = field(default_factory=set)

    @classmethod
    def of(cls, samples: Samples) -> "Watched":
        """The same samples, none of them seen yet."""
        names = samples.__dataclass_fields__
        return cls(**{name: getattr(samples, name) for name in names if name != "seen"})

    def augmented(self, rows: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Randomly augmented, normalised inputs of these rows."""
        self.seen.update(rows.tolist())
        return super().augmented(rows, generator)

    @property
    def forsaken(self) -> bool:
        """Whether others were trained on and some that an expert vouches for were not."""
        if self.trusted is None or not self.seen:
            return False
        return not self.seen.issuperset(torch.nonzero(self.trusted).flatten().tolist())

"""Which data to use, as the user writes it."""

from pathlib import Path

from pydantic import Field

from feddiv.data.transform import Augment
from feddiv.options import Options


class DataOptions(Options):
    """Where the samples come from.

    `augment` None means the source's own; `images` keeps only that many training samples, chosen
    by the seed, and `test_images` that many test samples; `draw` reuses a saved partition and
    noise instead of drawing them. `test_share` is for sources that come without test samples: the
    share of each class that is taken for them, by default a fifth.
    """

    source: str = "digits"
    path: Path | None = Field(default=None, strict=False)
    augment: Augment | None = None
    images: int | None = Field(default=None, ge=1)
    test_images: int | None = Field(default=None, ge=1)
    draw: Path | None = Field(default=None, strict=False)
    test_share: float | None = Field(default=None, ge=0, lt=1)

"""Which data to use, as the user writes it."""

import math
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from feddiv.core.options import GivenPath, Listed, ListedNumbers, Options
from feddiv.data.transform import Augment

MOST_SAMPLES: Final = 1_000_000_000
MOST_CLASSES: Final = 100_000
MOST_FEATURES: Final = 1_000_000  # of a feature vector, or along one side of a sample
MOST_NUMBERS: Final = 100_000_000  # in one sample


def _fits(shape: tuple[int, ...]) -> tuple[int, ...]:
    if math.prod(shape) > MOST_NUMBERS:
        raise ValueError(f"a sample may have {MOST_NUMBERS:,} numbers")
    return shape


class Columns(Options):
    """Names of a table's columns; None means the usual name, if the table has it.

    `features` names the columns of feature vectors: one column (of numbers or of lists), a list of
    columns, or what their names begin with; None means all that are left and hold numbers.
    """

    image: str | None = None  # path of the image, from the table on
    label: str | None = None  # the given label
    client: str | None = None  # who holds the sample
    split: str | None = None  # train or test
    true_label: str | None = None  # what somebody who knows says
    features: str | Annotated[tuple[str, ...], Field(strict=False)] | None = None


# Of columns that nobody named, the first that is there.
USUAL_COLUMNS: Final = {
    "image": ("image", "path", "file", "file_name", "filename"),
    "label": ("label",),
    "client": ("client",),
    "split": ("split",),
    "true_label": ("true_label",),
}


class DataOptions(Options):
    """Where the samples come from, and what is done to them.

    `classes`, `features`, `shape`, `mean` and `std` are for data that stay at their sites
    (`data.source=sites`): there the server says what samples look like.
    """

    source: str = "digits"  # one of `feddiv list datasets`
    path: GivenPath | None = None  # the file or folder of the data
    augment: Augment | None = None  # without it, what the source has by default
    # Only that many training samples, chosen by the seed.
    images: int | None = Field(default=None, ge=1, le=MOST_SAMPLES)
    # Only that share of the training samples, chosen by the seed.
    subset: float | None = Field(default=None, gt=0, le=1)
    test_images: int | None = Field(
        default=None, ge=1, le=MOST_SAMPLES
    )  # only that many test samples
    draw: GivenPath | None = None  # a saved partition and noise, to be used again
    # Of sources without test samples: the share of each class taken for them, by default a fifth.
    test_share: float | None = Field(default=None, ge=0, lt=1)
    # Side in pixels that images are resized to; without it, the source's own.
    size: int | None = Field(default=None, ge=4, le=4096)
    channels: Literal[1, 3] = 3  # of images in files: 3 is colour, 1 grey
    layout: Literal["class", "client"] | None = None  # what a folder's first level is
    follow_links: bool = False  # take links that lead out of the folder
    columns: Columns = Columns()
    hub: str | None = None  # Hugging Face data set, "owner/name" or "owner/name:config"
    # Names, in order.
    classes: Annotated[
        Annotated[tuple[str, ...], Field(strict=False, max_length=MOST_CLASSES)] | None, Listed
    ] = None
    features: int | None = Field(default=None, ge=1, le=MOST_FEATURES)  # length of feature vectors
    # Of one sample, where the sites' own apps give the input of the net.
    shape: Annotated[
        Annotated[
            tuple[Annotated[int, Field(ge=1, le=MOST_FEATURES)], ...],
            Field(strict=False, min_length=1, max_length=4),
            AfterValidator(_fits),
        ]
        | None,
        ListedNumbers,
    ] = None
    # Feature vectors by what the source says, or by sums that the clients tell.
    standardise: Literal["source", "clients"] = "source"
    # For normalisation: one number, or one for each channel or feature.
    mean: Annotated[Annotated[tuple[float, ...], Field(strict=False)] | None, ListedNumbers] = None
    # For normalisation, like mean.
    std: Annotated[
        Annotated[tuple[Annotated[float, Field(gt=0)], ...], Field(strict=False)] | None,
        ListedNumbers,
    ] = None

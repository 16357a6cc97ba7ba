"""Which data to use, as the user writes it."""

import math
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field

from feddiv.core.given_files import at_home
from feddiv.core.options import GivenPath, Listed, ListedNumbers, Options
from feddiv.data.transform import Augment
from feddiv.encoders.choice import LARGEST_SIZE, SMALLEST_SIZE, EncoderChoice, Pooling
from feddiv.encoders.registry import is_onnx_file

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
    text: str | None = None  # the text itself, for data.encoder
    label: str | None = None  # the given label
    client: str | None = None  # who holds the sample
    split: str | None = None  # train or test
    true_label: str | None = None  # what somebody who knows says
    features: str | Annotated[tuple[str, ...], Field(strict=False)] | None = None


# Of columns that nobody named, the first that is there.
USUAL_COLUMNS: Final = {
    "image": ("image", "path", "file", "file_name", "filename"),
    "text": ("text",),
    "label": ("label",),
    "client": ("client",),
    "split": ("split",),
    "true_label": ("true_label",),
}


class DataOptions(Options):
    """Where the samples come from, and what is done to them.

    `classes`, `features`, `shape`, `mean` and `std` are for data that stay at their sites
    (`data.source=sites`): there the server says what samples look like.

    With an `encoder` samples are what it makes of them. `encoder_size`, `encoder_mean`,
    `encoder_std` and `encoder_pooling` are usually known of it; they and `encoder_sha256`, which
    says which weights it has, are filled in when a run begins.
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
    # Experts' decisions: corrections.csv, or folders that have such files in them.
    corrections: Annotated[
        Annotated[tuple[GivenPath, ...], Field(strict=False, min_length=1)] | None, Listed
    ] = None
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
    # A frozen encoder: one of `feddiv list encoders`, FILE.onnx, timm:NAME, package.module:factory.
    encoder: str | None = Field(default=None, min_length=1, max_length=4096)
    # Side in pixels of the images that the encoder sees.
    encoder_size: int | None = Field(default=None, ge=SMALLEST_SIZE, le=LARGEST_SIZE)
    # What images are normalised with for the encoder: one number, or one for each colour.
    encoder_mean: Annotated[
        Annotated[tuple[float, ...], Field(strict=False)] | None, ListedNumbers
    ] = None
    # For normalisation, like encoder_mean.
    encoder_std: Annotated[
        Annotated[tuple[Annotated[float, Field(gt=0)], ...], Field(strict=False)] | None,
        ListedNumbers,
    ] = None
    # One vector from maps or tokens: their mean, their maximum, or the first token.
    encoder_pooling: Pooling | None = None
    # 2 also encodes the mirrored image: training draws one of the two each time.
    encoder_views: int = Field(default=1, ge=1, le=2)
    # sha256 (hex) of the encoder's weights.
    encoder_sha256: (
        Annotated[str, Field(pattern="^[0-9a-fA-F]{64}$"), AfterValidator(str.lower)] | None
    ) = None
    # For normalisation: one number, or one for each channel or feature.
    mean: Annotated[Annotated[tuple[float, ...], Field(strict=False)] | None, ListedNumbers] = None
    # For normalisation, like mean.
    std: Annotated[
        Annotated[tuple[Annotated[float, Field(gt=0)], ...], Field(strict=False)] | None,
        ListedNumbers,
    ] = None

    @property
    def encoding(self) -> EncoderChoice | None:
        """The encoder and how it is used, if there is one."""
        if self.encoder is None:
            return None
        return EncoderChoice(
            self.encoder,
            self.encoder_size,
            self.encoder_mean,
            self.encoder_std,
            self.encoder_pooling,
            self.encoder_views,
            self.encoder_sha256,
        )

    def encoded_by(self, choice: EncoderChoice | None) -> Self:
        """The same with this encoder."""
        if choice is None:
            return self
        return self.model_copy(
            update={
                "encoder": choice.name,
                "encoder_size": choice.size,
                "encoder_mean": choice.mean,
                "encoder_std": choice.std,
                "encoder_pooling": choice.pooling,
                "encoder_views": choice.views,
                "encoder_sha256": choice.sha256,
            }
        )

    def as_resolved(self, begun: Self) -> Self:
        """The same, where it says nothing about its encoder with what a run was begun with.

        One number for all colours means what the run made of it, as many as there are colours.
        """
        if self.encoder is None or begun.encoder is None:
            return self
        found = {key: getattr(begun, key) for key in type(self).model_fields if "encoder_" in key}
        own = {key: getattr(self, key) for key in found}
        for key, value in own.items():
            if isinstance(value, tuple) and value * len(found[key] or ()) == found[key]:
                own[key] = None
        return self.model_copy(
            update={key: value for key, value in found.items() if own[key] is None}
        )

    def from_anywhere(self) -> Self:
        """The same with the absolute path of an encoder that is a file."""
        if self.encoder is None or not is_onnx_file(self.encoder):
            return self
        return self.model_copy(update={"encoder": str(at_home(self.encoder).absolute())})

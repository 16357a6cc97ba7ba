"""Which data to use, as the user writes it."""

from typing import Annotated, Final, Literal

from pydantic import Field

from feddiv.core.options import GivenPath, Listed, ListedNumbers, Options
from feddiv.data.transform import Augment


class Columns(Options):
    """Names of a table's columns; None means the usual name, if the table has it.

    `features` names the columns of feature vectors: one column (of numbers or of lists), a list of
    columns, or what their names begin with; None means all that are left and hold numbers.
    """

    image: str | None = None
    label: str | None = None
    client: str | None = None
    split: str | None = None
    true_label: str | None = None
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
    """Where the samples come from.

    `augment` None means the source's own; `images` keeps only that many training samples, `subset`
    that share of them, chosen by the seed, and `test_images` that many test samples; `draw` reuses
    a saved partition and noise instead of drawing them. `test_share` is for sources that come
    without test samples: the share of each class that is taken for them, by default a fifth.

    For images in files: `size` is the side in pixels that they are resized to, None the source's
    own; `channels` 3 is colour, 1 grey. `layout` says whether a folder's first level are classes or
    clients, `follow_links` takes links that lead out of it, `columns` names a table's columns, and
    `hub` is the id of a Hugging Face data set, "owner/name" or "owner/name:config".

    For data that stay at their sites the server says what they look like: `classes` are their names
    in order, `size` and `channels` describe images or `features` the length of vectors, `mean` and
    `std` (one number, or one for each channel or feature) how they are normalised. Where the sites'
    own apps give what a net eats already, `shape` is that of a sample.
    """

    source: str = "digits"
    path: GivenPath | None = None
    augment: Augment | None = None
    images: int | None = Field(default=None, ge=1)
    subset: float | None = Field(default=None, gt=0, le=1)
    test_images: int | None = Field(default=None, ge=1)
    draw: GivenPath | None = None
    test_share: float | None = Field(default=None, ge=0, lt=1)
    size: int | None = Field(default=None, ge=4, le=4096)
    channels: Literal[1, 3] = 3
    layout: Literal["class", "client"] | None = None
    follow_links: bool = False
    columns: Columns = Columns()
    hub: str | None = None
    classes: Annotated[Annotated[tuple[str, ...], Field(strict=False)] | None, Listed] = None
    features: int | None = Field(default=None, ge=1)
    shape: Annotated[
        Annotated[
            tuple[Annotated[int, Field(ge=1)], ...], Field(strict=False, min_length=1, max_length=4)
        ]
        | None,
        ListedNumbers,
    ] = None
    mean: Annotated[Annotated[tuple[float, ...], Field(strict=False)] | None, ListedNumbers] = None
    std: Annotated[
        Annotated[tuple[Annotated[float, Field(gt=0)], ...], Field(strict=False)] | None,
        ListedNumbers,
    ] = None

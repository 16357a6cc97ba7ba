"""The catalogue of somebody's own images."""

from collections.abc import Sequence
from typing import Final

from feddiv.core.arrays import Rows
from feddiv.core.errors import UserError
from feddiv.data.data_options import DataOptions
from feddiv.data.images.listing import ImageListing, Listed
from feddiv.data.test_split import cut
from feddiv.data.transform import Augment

SIZE: Final = 64  # where data.size does not say


def own_listing(
    name: str,
    options: DataOptions,
    where: str,
    classes: tuple[str, ...],
    train: Listed,
    test: Listed | None,
    *,
    truth: Rows | None = None,
    clients: tuple[str, ...] = (),
    holder: Rows | None = None,
    split_here: bool = False,
    notes: Sequence[str] = (),
    columns: tuple[str, ...] = (),
) -> ImageListing:
    """Images of a source; without test images some are held out, and judged by the truth if known.

    `where` names the data in errors, `split_here` is for a source that has held them out itself.
    """
    if test is None:
        kept, held, judged = cut(train.labels, truth, options.test_share, where)
        train, test = train.chosen(kept), Listed(train.images.chosen(held), judged)
        truth, holder = (None if each is None else each[kept] for each in (truth, holder))
        split_here = True
    size = options.size or SIZE
    return ImageListing(
        name=name,
        classes=classes,
        train=train,
        test=test,
        size=size,
        channels=options.channels,
        augment=Augment(pad=size // 8),
        truth=truth,
        clients=clients,
        holder=holder,
        split_here=split_here,
        notes=tuple(notes),
        columns=columns,
    )


def refuse_image_keys(options: DataOptions, what: str, held: str) -> None:
    """Keys of images mean nothing to data that hold none."""
    for key in ("size", "channels"):
        value = getattr(options, key)
        if value != DataOptions.model_fields[key].default:
            raise UserError(f"data.{key}={value}: {what} holds no images but {held}")

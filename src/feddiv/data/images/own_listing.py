"""The catalogue of somebody's own images."""

from collections.abc import Sequence
from typing import Final

from feddiv.core.arrays import Rows
from feddiv.data.data_options import DataOptions
from feddiv.data.images.listing import ImageListing, Listed
from feddiv.data.test_split import some_held_out
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
        kept, rest = some_held_out(train.labels, options.test_share, where)
        judged = train.labels if truth is None else truth
        train, test = train.chosen(kept), Listed(train.images.chosen(rest), judged[rest])
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

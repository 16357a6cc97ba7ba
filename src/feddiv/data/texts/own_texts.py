"""The data set of somebody's own texts, before an encoder makes vectors of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from feddiv.core.arrays import Rows
from feddiv.data.dataset import Dataset, Split
from feddiv.data.encoding.material import Originals
from feddiv.data.sample_names import Numbered
from feddiv.data.test_split import cut
from feddiv.data.texts.texts import Texts
from feddiv.data.transform import Augment


@dataclass(frozen=True, eq=False)
class Labelled:
    """Texts and their labels, int64 [N]."""

    texts: Texts
    labels: Rows

    def chosen(self, rows: Rows) -> Labelled:
        """These only."""
        return Labelled(self.texts.chosen(rows), self.labels[rows])

    @property
    def split(self) -> Split:
        """Samples without a number yet."""
        return Split(torch.empty((len(self.labels), 0)), torch.from_numpy(self.labels))


def own_texts(
    name: str,
    share: float | None,
    where: str,
    classes: tuple[str, ...],
    train: Labelled,
    test: Labelled | None,
    *,
    truth: Rows | None = None,
    clients: tuple[str, ...] = (),
    holder: Rows | None = None,
    split_here: bool = False,
    notes: Sequence[str] = (),
    columns: tuple[str, ...] = (),
    numbers: Rows | None = None,
) -> Dataset:
    """Texts of a source; without test texts this share of each class is held out.

    `where` names the data in errors, `split_here` is for a source that has held them out itself.
    `numbers` are the rows of the training texts in their source, if not those from 0 on.
    """
    numbers = np.arange(len(train.labels)) if numbers is None else numbers
    if test is None:
        kept, held, judged = cut(train.labels, truth, share, where)
        train, test = train.chosen(kept), Labelled(train.texts.chosen(held), judged)
        truth, holder = (None if each is None else each[kept] for each in (truth, holder))
        numbers = numbers[kept]
        split_here = True
    return Dataset(
        name=name,
        classes=classes,
        train=train.split,
        test=test.split,
        mean=(),
        std=(),
        augment=Augment(),
        truth=_tensor(truth),
        clients=clients,
        holder=_tensor(holder),
        notes=tuple(notes),
        split_here=split_here,
        columns=columns,
        originals=Originals(train.texts, test.texts),
        names=train.texts if train.texts.names else Numbered(numbers),
    )


def _tensor(numbers: Rows | None) -> torch.Tensor | None:
    return None if numbers is None else torch.from_numpy(np.ascontiguousarray(numbers))

"""20 Newsgroups, split by date, as Cardoso-Cachopo (2007) has prepared the postings.

Of each posting there are subject and body, in small letters and without anything but letters. Other
headers are gone; quotes of other postings and signatures are still there, so results are not those
of texts without them.
"""

import hashlib
from pathlib import Path
from typing import Final

from feddiv.core.arrays import Rows
from feddiv.core.errors import UserError
from feddiv.core.given_files import read_given
from feddiv.data.data_options import DataOptions
from feddiv.data.dataset import Dataset
from feddiv.data.images.listing import numbered
from feddiv.data.published.benchmarks import NEWSGROUPS
from feddiv.data.published.places import find
from feddiv.data.texts.own_texts import Labelled, own_texts
from feddiv.data.texts.texts import Texts, usable

HEAD: Final = 3  # lines that name the columns and their types


def load(options: DataOptions) -> Dataset:
    """11,293 postings to train on and 7,528 later ones to test on, of 20 groups."""
    folder = find(NEWSGROUPS, options.path)
    train, test = (_rows(folder, piece.name) for piece in NEWSGROUPS.pieces)
    classes, labels = numbered([group for group, _ in train + test])
    given = labels[: len(train)]
    return own_texts(
        NEWSGROUPS.name,
        None,
        str(folder),
        classes,
        _labelled(train, given),
        _labelled(test, labels[len(train) :]),
        truth=given,
    )


def _labelled(rows: list[tuple[str, str]], labels: Rows) -> Labelled:
    return Labelled(Texts.of(text for _, text in rows), labels)


def _rows(folder: Path, name: str) -> list[tuple[str, str]]:
    """Group and text of every posting; the checksum says that nothing else is in the file."""
    piece, file = NEWSGROUPS.piece(name), folder / name
    try:
        content = read_given(file, piece.size)
    except OSError as error:
        raise UserError(f"{file}: cannot be read ({error.strerror or error})") from None
    if hashlib.md5(content, usedforsecurity=False).hexdigest() != piece.md5:
        raise UserError(f"{file}: has a wrong checksum; run `feddiv data get newsgroups` again")
    lines = [line.split("\t") for line in content.decode("ascii").splitlines()[HEAD:] if line]
    return [(group, usable(text)) for group, text in lines]

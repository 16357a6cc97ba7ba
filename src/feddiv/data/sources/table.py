"""Somebody's own samples in a table: paths of images, texts, or feature vectors, and labels."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch

from feddiv.core.arrays import Rows
from feddiv.core.errors import UserError
from feddiv.data.data_options import MOST_CLASSES, DataOptions
from feddiv.data.dataset import Dataset, Split
from feddiv.data.images.listing import Files, ImageListing, Listed, numbered, some
from feddiv.data.images.own_listing import own_listing, refuse_image_keys
from feddiv.data.names import (
    TEST,
    TRAIN,
    composed,
    is_split,
    is_train,
    number_notes,
    one_spelling,
    test_name,
)
from feddiv.data.sample_names import Numbered
from feddiv.data.sources.table_cells import Table
from feddiv.data.sources.table_columns import (
    column_texts,
    feature_columns,
    roles_of,
    said_of,
    sample_kind,
)
from feddiv.data.sources.table_files import read_table
from feddiv.data.statistics import feature_statistics
from feddiv.data.test_split import some_held_out
from feddiv.data.texts.own_texts import Labelled, own_texts
from feddiv.data.transform import Augment

TAKES: Final = frozenset({"path", "test_share", "size", "channels", "columns"})


@dataclass(frozen=True, eq=False)
class Sheet:
    """All that a table says but the inputs: labels of its rows, which of them are for what.

    `truth` may lack (-1) on test rows only. `split_here` says that the test rows were held out.
    """

    classes: tuple[str, ...]
    labels: Rows
    truth: Rows | None
    clients: tuple[str, ...]
    holder: Rows | None
    train: Rows
    test: Rows
    split_here: bool

    @property
    def test_labels(self) -> Rows:
        """True labels where they are known."""
        given = self.labels[self.test]
        if self.truth is None:
            return given
        true = self.truth[self.test]
        return np.where(true < 0, given, true)


def load(options: DataOptions) -> Dataset | ImageListing:
    """A catalogue of images, or a data set of texts or feature vectors."""
    if options.path is None:
        raise UserError("data.source=table: data.path has to name a .csv or .parquet file")
    return from_table(read_table(options.path.expanduser()), options)


def from_table(
    table: Table,
    options: DataOptions,
    name: str = "table",
    named: Sequence[str] | None = None,
) -> Dataset | ImageListing:
    """The data of a table, for a source of this name; `named` are its classes in order."""
    roles = roles_of(table, options.columns)
    kind = sample_kind(table, roles, options)
    for other in ("image", "text"):
        if other != kind:
            roles.pop(other, None)
    if kind == "image":
        return _images(table, roles, options, name, named)
    refuse_image_keys(options, table.title, "texts" if kind == "text" else "feature vectors")
    if kind == "text":
        return _texts(table, roles, options, name, named)
    return _features(table, roles, options, name, named)


def _images(
    table: Table,
    roles: dict[str, str],
    options: DataOptions,
    name: str,
    named: Sequence[str] | None,
) -> ImageListing:
    sheet = _sheet(table, roles, options.test_share, named)
    (paths,) = table.texts([roles["image"]])
    if "" in paths:
        raise table.malformed(f"{roles['image']} is missing", paths.index(""))
    files = Files(table.folder, tuple(paths))
    return own_listing(
        name,
        options,
        table.where,
        sheet.classes,
        Listed(files.chosen(sheet.train), sheet.labels[sheet.train]),
        Listed(files.chosen(sheet.test), sheet.test_labels),
        truth=None if sheet.truth is None else sheet.truth[sheet.train],
        clients=sheet.clients,
        holder=sheet.holder,
        split_here=sheet.split_here,
        notes=number_notes(sheet.classes) + _repeated(paths, sheet),
        columns=(roles["image"],),
    )


def _repeated(paths: list[str], sheet: Sheet) -> list[str]:
    """A line about images that are listed more than once."""
    places = [os.path.normpath(path) for path in paths]
    label_of: dict[str, int] = {}
    twice, doubtful = set(), set()
    for row in (*sheet.train.tolist(), *sheet.test.tolist()):
        place, label = places[row], int(sheet.labels[row])
        if place in label_of:
            twice.add(place)
        if label_of.setdefault(place, label) != label:
            doubtful.add(place)
    if not twice:
        return []
    learned, tested = ({places[row] for row in rows} for rows in (sheet.train, sheet.test))
    return [
        f"images that are listed more than once: {len(twice):,} ({some(sorted(twice))}), "
        f"{len(learned & tested):,} of them both to train and to test, {len(doubtful):,} under "
        "different labels"
    ]


def _texts(
    table: Table,
    roles: dict[str, str],
    options: DataOptions,
    name: str,
    named: Sequence[str] | None,
) -> Dataset:
    sheet = _sheet(table, roles, options.test_share, named)
    texts = column_texts(table, roles["text"])
    return own_texts(
        name,
        options.test_share,
        table.where,
        sheet.classes,
        Labelled(texts.chosen(sheet.train), sheet.labels[sheet.train]),
        Labelled(texts.chosen(sheet.test), sheet.test_labels),
        truth=None if sheet.truth is None else sheet.truth[sheet.train],
        clients=sheet.clients,
        holder=sheet.holder,
        split_here=sheet.split_here,
        notes=number_notes(sheet.classes),
        columns=(roles["text"],),
        numbers=_numbers_of(table, sheet),
    )


def _features(
    table: Table,
    roles: dict[str, str],
    options: DataOptions,
    name: str,
    named: Sequence[str] | None,
) -> Dataset:
    columns = feature_columns(table, roles, options.columns)
    vectors = table.vectors(columns)
    sheet = _sheet(table, roles, options.test_share, named)
    inputs, labels = vectors[sheet.train], sheet.labels[sheet.train]
    mean, std = feature_statistics(inputs)
    truth = None if sheet.truth is None else torch.from_numpy(sheet.truth[sheet.train])
    return Dataset(
        name=name,
        classes=sheet.classes,
        train=Split(torch.from_numpy(inputs), torch.from_numpy(labels)),
        test=Split(torch.from_numpy(vectors[sheet.test]), torch.from_numpy(sheet.test_labels)),
        mean=mean,
        std=std,
        augment=Augment(),
        truth=truth,
        clients=sheet.clients,
        holder=None if sheet.holder is None else torch.from_numpy(sheet.holder),
        notes=(said_of(table, roles, columns), *number_notes(sheet.classes)),
        split_here=sheet.split_here,
        columns=tuple(columns),
        names=Numbered(_numbers_of(table, sheet)),
    )


def _numbers_of(table: Table, sheet: Sheet) -> Rows:
    """The rows that the training samples have in their own file or frame."""
    return np.array([table.number(int(row)) for row in sheet.train], dtype=np.int64)


def _sheet(
    table: Table, roles: dict[str, str], share: float | None, named: Sequence[str] | None
) -> Sheet:
    asked = [role for role in ("label", "true_label", "client", "split") if role in roles]
    values = dict(zip(asked, table.texts([roles[role] for role in asked]), strict=True))
    given = values["label"]
    if len(set(given)) > MOST_CLASSES:
        raise table.malformed(f"{roles['label']} has more than {MOST_CLASSES:,} classes")
    _check_names(table, roles["label"], given, range(len(given)))
    spelled = one_spelling(sorted(set(given)), "class")
    given = [spelled[label] for label in given]
    classes, labels = numbered(given)
    if named is not None:
        classes = tuple(named)
        labels = _numbers(table, roles["label"], _by_name(given, classes), classes)
    if "split" in values:
        train, test = _by_words(table, values["split"])
    else:
        train, test = np.arange(len(labels)), None
    split_here = test is None
    if test is None:
        kept, held = some_held_out(labels[train], share, table.where)
        train, test = train[kept], train[held]

    truth = None
    if "true_label" in values:
        true = values["true_label"]
        # A test set of its own may be clean by nature; where it was held out, the truth is needed.
        needed = train if "split" in values else range(len(true))
        _check_names(table, roles["true_label"], true, needed)
        true = true if named is None else _by_name(true, classes)
        truth = _numbers(table, roles["true_label"], true, classes)
    clients: tuple[str, ...] = ()
    holder = None
    if "client" in values:
        _check_names(table, roles["client"], values["client"], train)
        names = [values["client"][row] for row in train]
        spelled = one_spelling(sorted(set(names)), f"{table.where}: client")
        names = [spelled[name] for name in names]
        clients, holder = numbered(names)
        if table.clients is not None:
            clients = table.clients
            numbers = {name: number for number, name in enumerate(clients)}
            holder = np.array([numbers[name] for name in names], dtype=np.int64)
    return Sheet(classes, labels, truth, clients, holder, train, test, split_here)


def _by_words(table: Table, words: list[str]) -> tuple[Rows, Rows | None]:
    """Training and test rows; rows of a validation split are left out where there is a test."""
    for row, word in enumerate(words):
        if not is_split(word):
            raise table.malformed(
                f"split {word!r} is unknown; allowed are {', '.join(TRAIN + TEST)}", row
            )
    low = [word.casefold() for word in words]
    train = np.array([row for row, word in enumerate(low) if is_train(word)], dtype=np.int64)
    if not len(train):
        raise table.malformed("no row has split train")
    tested = test_name(low, table.where)
    if tested is None:
        return train, None
    return train, np.array([row for row, word in enumerate(low) if word == tested], dtype=np.int64)


def _by_name(labels: list[str], classes: tuple[str, ...]) -> list[str]:
    """Labels that are numbers of classes, from 0, by their names; the others as they are."""
    numbers = {str(number): name for number, name in enumerate(classes)}
    return [label if label in classes else numbers.get(label, label) for label in labels]


def _numbers(table: Table, column: str, texts: list[str], classes: tuple[str, ...]) -> Rows:
    """Class numbers, -1 where there is no text."""
    place = {name: number for number, name in enumerate(classes)} | {"": -1}
    texts = [composed(text) for text in texts]
    for row, text in enumerate(texts):
        if text not in place:
            raise table.malformed(
                f"{column} {text!r} is not one of the classes ({some(classes, 8)})", row
            )
    return np.array([place[text] for text in texts], dtype=np.int64)


def _check_names(table: Table, column: str, texts: list[str], rows: Iterable[int]) -> None:
    for row in rows:
        if not texts[row]:
            raise table.malformed(f"{column} is missing", int(row))
        table.check_utf8(column, texts[row], int(row))

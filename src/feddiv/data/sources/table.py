"""Somebody's own samples, listed in a table: paths of images, or feature vectors, and labels."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch

from feddiv.core.arrays import Rows
from feddiv.core.errors import UserError
from feddiv.core.terminal import shown
from feddiv.data.data_options import USUAL_COLUMNS, Columns, DataOptions
from feddiv.data.dataset import Dataset, Split
from feddiv.data.images.listing import Files, ImageListing, Listed, numbered, some
from feddiv.data.images.own import own_listing
from feddiv.data.names import (
    TEST,
    TRAIN,
    composed,
    is_split,
    is_train,
    is_utf8,
    number_notes,
    one_spelling,
    test_name,
)
from feddiv.data.sources.table_cells import Table, read_table
from feddiv.data.statistics import feature_statistics
from feddiv.data.test_split import some_held_out
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
    """A catalogue of images, or a data set of feature vectors."""
    if options.path is None:
        raise UserError("data.source=table: data.path has to name a .csv or .parquet file")
    table = read_table(options.path.expanduser())
    roles = _roles(table, options.columns)
    if "image" in roles and options.columns.features is not None:
        if options.columns.image is not None:
            raise UserError("data.columns: give image or features, not both")
        del roles["image"]
    if "image" in roles:
        return _images(table, roles, options)
    for key in ("size", "channels"):
        value = getattr(options, key)
        if value != DataOptions.model_fields[key].default:
            raise UserError(f"data.{key}={value}: {table.path} holds no images but feature vectors")
    return _features(table, roles, options)


def _roles(table: Table, columns: Columns) -> dict[str, str]:
    """The column of every role that is there: the one that is named, else the usual one."""
    roles: dict[str, str] = {}
    for role, usual in USUAL_COLUMNS.items():
        wanted = getattr(columns, role)
        if wanted is not None and wanted not in table.names:
            raise table.malformed(
                f"has no column {wanted!r} (data.columns.{role}), only {some(table.names, 20)}"
            )
        found = [wanted] if wanted is not None else [n for n in usual if n in table.names]
        if found:
            roles[role] = found[0]
    for role, column in roles.items():
        twin = next((other for other in roles if roles[other] == column and other != role), None)
        if twin is not None:
            raise table.malformed(f"column {column!r} cannot be both {role} and {twin}")
    if "label" not in roles:
        raise table.malformed(
            f"has no column 'label'; set data.columns.label to one of {some(table.names, 20)}"
        )
    return roles


def _images(table: Table, roles: dict[str, str], options: DataOptions) -> ImageListing:
    sheet = _sheet(table, roles, options.test_share)
    (paths,) = table.texts([roles["image"]])
    if "" in paths:
        raise table.malformed(f"{roles['image']} is missing", paths.index(""))
    files = Files(table.path.parent, tuple(paths))
    return own_listing(
        "table",
        options,
        f"data.path={table.path}",
        sheet.classes,
        Listed(files.chosen(sheet.train), sheet.labels[sheet.train]),
        Listed(files.chosen(sheet.test), sheet.test_labels),
        truth=None if sheet.truth is None else sheet.truth[sheet.train],
        clients=sheet.clients,
        holder=sheet.holder,
        split_here=sheet.split_here,
        notes=number_notes(sheet.classes) + _repeated(paths, sheet),
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


def _features(table: Table, roles: dict[str, str], options: DataOptions) -> Dataset:
    columns = _feature_columns(table, roles, options.columns)
    vectors = table.vectors(columns)
    sheet = _sheet(table, roles, options.test_share)
    inputs, labels = vectors[sheet.train], sheet.labels[sheet.train]
    mean, std = feature_statistics(inputs)
    truth = None if sheet.truth is None else torch.from_numpy(sheet.truth[sheet.train])
    return Dataset(
        name="table",
        classes=sheet.classes,
        train=Split(torch.from_numpy(inputs), torch.from_numpy(labels)),
        test=Split(torch.from_numpy(vectors[sheet.test]), torch.from_numpy(sheet.test_labels)),
        mean=mean,
        std=std,
        augment=Augment(),
        truth=truth,
        clients=sheet.clients,
        holder=None if sheet.holder is None else torch.from_numpy(sheet.holder),
        notes=(_said(table, roles, columns), *number_notes(sheet.classes)),
        split_here=sheet.split_here,
    )


def _said(table: Table, roles: dict[str, str], features: list[str]) -> str:
    """Nobody should wonder what was learned from."""
    used = {*features, *roles.values()}
    left = [name for name in table.names if name not in used]
    line = f"features are {len(features):,} of {table.path.name}'s columns ({some(features, 8)})"
    return f"{line}; left out: {some(left, 8) if left else 'none'}"


def _feature_columns(table: Table, roles: dict[str, str], columns: Columns) -> list[str]:
    """Those that are named, or all that are left and hold numbers."""
    left = [name for name in table.names if name not in roles.values()]
    wanted = columns.features
    if isinstance(wanted, str):
        named = [wanted] if wanted in left else [n for n in left if n.startswith(wanted)]
        if not named:
            raise table.malformed(
                f"no column is called, or begins with, {wanted!r} (data.columns.features); there "
                f"are {some(left, 20)}"
            )
        return named
    if wanted is not None:
        for name in wanted:
            if name not in left:
                raise table.malformed(f"has no column {name!r} (data.columns.features)")
        if not wanted:
            raise UserError("data.columns.features=[]: name at least one column")
        return list(wanted)
    numbers = [name for name in left if table.numeric(name)]
    lists = [name for name in left if table.lists(name)]
    if len(lists) + bool(numbers) > 1:
        raise table.malformed(
            f"has more than one kind of features ({some(lists + numbers, 6)}); set "
            "data.columns.features"
        )
    if not lists and not numbers:
        raise table.malformed(
            "has neither a column 'image' nor columns of numbers; set data.columns.image or "
            "data.columns.features"
        )
    return lists or numbers


def _sheet(table: Table, roles: dict[str, str], share: float | None) -> Sheet:
    asked = [role for role in ("label", "true_label", "client", "split") if role in roles]
    values = dict(zip(asked, table.texts([roles[role] for role in asked]), strict=True))
    given = values["label"]
    _check_names(table, roles["label"], given, range(len(given)))
    spelled = one_spelling(sorted(set(given)), "class")
    classes, labels = numbered([spelled[label] for label in given])
    if len(classes) < 2:
        raise table.malformed(f"only one class, {classes[0]}; at least 2 are needed")
    if "split" in values:
        train, test = _by_words(table, values["split"])
    else:
        train, test = np.arange(len(labels)), None
    split_here = test is None
    if test is None:
        kept, held = some_held_out(labels[train], share, f"data.path={table.path}")
        train, test = train[kept], train[held]

    truth = None
    if "true_label" in values:
        true = values["true_label"]
        # A test set of its own may be clean by nature; where it was held out, the truth is needed.
        needed = train if "split" in values else range(len(true))
        _check_names(table, roles["true_label"], true, needed)
        truth = _numbers(table, roles["true_label"], true, classes)
    clients: tuple[str, ...] = ()
    holder = None
    if "client" in values:
        _check_names(table, roles["client"], values["client"], train)
        names = [values["client"][row] for row in train]
        spelled = one_spelling(sorted(set(names)), f"data.path={table.path}: client")
        clients, holder = numbered([spelled[name] for name in names])
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
    tested = test_name(low, f"data.path={table.path}")
    if tested is None:
        return train, None
    return train, np.array([row for row, word in enumerate(low) if word == tested], dtype=np.int64)


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
        if not is_utf8(texts[row]):
            raise table.malformed(
                f"{column} {shown(texts[row])} is not UTF-8: the file has another encoding; "
                "save it in UTF-8",
                int(row),
            )

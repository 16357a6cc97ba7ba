"""Images or texts of a Hugging Face data set, through the `datasets` package."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from feddiv.core.arrays import Rows
from feddiv.core.errors import UserError
from feddiv.data.data_options import USUAL_COLUMNS, DataOptions
from feddiv.data.dataset import Dataset
from feddiv.data.images.listing import ImageListing, Listed, numbered
from feddiv.data.images.own_listing import own_listing, refuse_image_keys
from feddiv.data.names import composed, is_train, one_spelling, test_name
from feddiv.data.sources.huggingface_texts import hub_texts, text_column
from feddiv.data.texts.own_texts import Labelled, own_texts

TAKES: Final = frozenset(
    {"path", "hub", "test_share", "size", "channels"}
    | {f"columns.{role}" for role in ("image", "text", "label", "client", "true_label")}
)
SAVED: Final = ("dataset_dict.json", "dataset_info.json")  # by save_to_disk


@dataclass(frozen=True, eq=False)
class HubImages:
    """Rows of an image column, as the bytes of image files."""

    table: Any  # datasets.Dataset, whose images are not decoded
    column: str
    split: str
    rows: Rows

    def __len__(self) -> int:
        return len(self.rows)

    def chosen(self, rows: Rows) -> "HubImages":
        """These only."""
        return HubImages(self.table, self.column, self.split, self.rows[rows])

    def name(self, row: int) -> str:
        """Split and row, counted from 0 as the package does."""
        return f"{self.split} row {self.rows[row]}"

    def content(self, row: int) -> Path | bytes:
        """The image's bytes, or the file that the data set refers to."""
        image = self.table[int(self.rows[row])][self.column]
        if image is None:
            raise ValueError("there is no image")
        return image["bytes"] if image["bytes"] is not None else Path(image["path"])

    def identities(self) -> Iterator[bytes]:
        """The package's own fingerprint of the table, and the rows."""
        yield f"{self.table._fingerprint}/{self.column}".encode()
        yield self.rows.tobytes()

    def identity(self, row: int) -> bytes:
        """The same of one row."""
        return f"{self.table._fingerprint}/{self.column}/{self.rows[row]}".encode()


def load(options: DataOptions) -> Dataset | ImageListing:
    """The train split and the test split, or where there is none a fifth of the first."""
    where, splits = _splits(options)
    names = [name for name in splits if is_train(name)] or list(splits)[: len(splits) == 1]
    if not names:
        raise UserError(f"{where}: has no split train, only {', '.join(splits)}")
    learned, tested = names[0], test_name(splits, where)
    if tested == learned:
        tested = None
    used = {name: splits[name] for name in (learned, tested) if name is not None}

    columns, train = options.columns, splits[learned]
    client = _column_of("client", columns.client, train)
    true_label = _column_of("true_label", columns.true_label, train)
    text = text_column(where, train, options)
    image = _image_column(where, train, columns.image) if text is None else ""
    label, classes, labels = _labels(where, used, columns.label, true_label)
    truth = None
    if true_label is not None:
        truth = _truth(where, train, true_label, label, classes, missing=False)
    if tested is not None:
        judge = _column_of("true_label", columns.true_label, splits[tested])
        if judge is not None and judge in splits[tested].features:
            true = _truth(where, splits[tested], judge, label, classes, missing=True)
            labels[tested] = np.where(true < 0, labels[tested], true)
    clients, holder = _clients(where, train, client)
    if text is not None:
        refuse_image_keys(options, where, "texts")
        read = {
            name: Labelled(hub_texts(where, name, text, _column(where, split, text)), labels[name])
            for name, split in used.items()
        }
        return own_texts(
            "huggingface",
            options.test_share,
            where,
            classes,
            read[learned],
            None if tested is None else read[tested],
            truth=truth,
            clients=clients,
            holder=holder,
            columns=(text,),
        )
    listed = {
        name: Listed(_images(split, image, name), labels[name]) for name, split in used.items()
    }
    return own_listing(
        "huggingface",
        options,
        where,
        classes,
        listed[learned],
        None if tested is None else listed[tested],
        truth=truth,
        clients=clients,
        holder=holder,
    )


def _column_of(role: str, wanted: str | None, split: Any) -> str | None:
    """The column that is named, else the usual one if it is there."""
    usual = (name for name in USUAL_COLUMNS[role] if name in split.features)
    return wanted if wanted is not None else next(usual, None)


def _splits(options: DataOptions) -> tuple[str, dict[str, Any]]:
    """What to call the data in errors, and its tables by split."""
    if (options.path is None) == (options.hub is None):
        raise UserError(
            "data.source=huggingface: give data.path (a folder saved by save_to_disk, or of "
            "Parquet files) or data.hub (owner/name, or owner/name:config)"
        )
    try:
        import datasets
    except ImportError:
        raise UserError(
            "data.source=huggingface: needs the package datasets; pip install 'feddiv[vision]'"
        ) from None
    try:
        if options.hub is not None:
            where = f"data.hub={options.hub}"
            owner, _, config = options.hub.partition(":")
            loaded = datasets.load_dataset(owner, config or None)
        else:
            assert options.path is not None
            where, path = f"data.path={options.path}", options.path.expanduser()
            if not path.is_dir():
                raise UserError(f"{where}: there is no such folder")
            datasets.disable_progress_bars()  # they are for downloads
            if any((path / name).is_file() for name in SAVED):
                loaded = datasets.load_from_disk(str(path))
            else:
                loaded = datasets.load_dataset(str(path))
    except UserError:
        raise
    except Exception as problem:  # of the network, the hub, the files, their formats
        reason = str(problem).strip().splitlines()
        raise UserError(
            f"{where}: cannot be loaded ({reason[0] if reason else type(problem).__name__})"
        ) from None
    splits = loaded if isinstance(loaded, dict) else {"train": loaded}
    return where, {name: split for name, split in splits.items() if len(split)}


def _image_column(where: str, split: Any, wanted: str | None) -> str:
    import datasets

    features = split.features.items()
    found: list[str] = [name for name, kind in features if isinstance(kind, datasets.Image)]
    if wanted is not None:
        if wanted not in found:
            raise UserError(
                f"data.columns.image={wanted}: not an image column of {where}, which has "
                f"{', '.join(found) or 'none'}"
            )
        return wanted
    if len(found) == 1:
        return found[0]
    if not found:
        raise UserError(
            f"{where}: has no image column and no column 'text' (data.columns.text); feature "
            "vectors go through data.source=table (save them as Parquet)"
        )
    raise UserError(f"{where}: has image columns {', '.join(found)}; set data.columns.image to one")


def _images(split: Any, column: str, name: str) -> HubImages:
    import datasets

    raw = split.select_columns([column]).cast_column(column, datasets.Image(decode=False))
    return HubImages(raw, column, name, np.arange(len(split)))


def _labels(
    where: str, splits: dict[str, Any], wanted: str | None, truth: str | None
) -> tuple[str, tuple[str, ...], dict[str, Rows]]:
    """The label column, the class names, and the class numbers of every split.

    `truth` is a column that holds classes too.
    """
    import datasets

    features = next(iter(splits.values())).features
    typed = [name for name, kind in features.items() if isinstance(kind, datasets.ClassLabel)]
    free = [name for name in typed if name != truth]
    column = wanted or (free[0] if len(free) == 1 else "label")
    if column not in features:
        raise UserError(
            f"{where}: label column {column!r} is not there; set data.columns.label to one of "
            f"{', '.join(features)}"
        )
    values = {name: _column(where, split, column) for name, split in splits.items()}
    if column in typed:
        classes = tuple(features[column].names)
        numbers = {name: np.array(each, dtype=np.int64) for name, each in values.items()}
        for name, each in numbers.items():
            wrong = np.flatnonzero((each < 0) | (each >= len(classes)))
            if len(wrong):
                raise UserError(f"{where}: {name} row {wrong[0]} has no label")
    else:
        texts = []
        for given in values.values():  # one may be spelled otherwise than the other
            spelled = one_spelling(sorted({str(value) for value in given}), f"{where}: class")
            texts += [spelled[str(value)] for value in given]
        classes, flat = numbered(texts)
        parts = np.split(flat, np.cumsum([len(each) for each in values.values()])[:-1])
        numbers = dict(zip(values, parts, strict=True))
    return column, classes, numbers


def _truth(
    where: str, split: Any, column: str, label: str, classes: tuple[str, ...], *, missing: bool
) -> Rows:
    """Class numbers; -1 where there is none, if values may be missing."""
    values = _column(where, split, column, missing=missing)
    typed = _class_names(split, label) is not None
    numbers = typed and all(isinstance(value, int | None) for value in values)
    place: dict[Any, int] = {name: number for number, name in enumerate(classes)}
    if numbers:
        if _class_names(split, column) not in (None, list(classes)):
            raise UserError(f"{where}: {column} and {label} have different class names")
        place = {number: number for number in range(len(classes))}
    else:
        place = {composed(name): number for name, number in place.items()}
        values = [None if value is None else composed(str(value)) for value in values]
    if missing:
        place |= {None: -1, "": -1, -1: -1}  # the last is how the package says so
    for row, value in enumerate(values):
        if value not in place:
            raise UserError(f"{where}: true label {value!r} of row {row} is not one of the classes")
    return np.array([place[value] for value in values], dtype=np.int64)


def _class_names(split: Any, column: str) -> list[str] | None:
    return getattr(split.features[column], "names", None)


def _clients(where: str, split: Any, column: str | None) -> tuple[tuple[str, ...], Rows | None]:
    if column is None:
        return (), None
    names = [str(value) for value in _column(where, split, column)]
    spelled = one_spelling(sorted(set(names)), f"{where}: client")
    return numbered([spelled[name] for name in names])


def _column(where: str, split: Any, column: str, *, missing: bool = False) -> list[Any]:
    """All values of a column, none of them missing unless they may."""
    if column not in split.features:
        raise UserError(f"{where}: has no column {column!r}, only {', '.join(split.features)}")
    values = split.select_columns([column]).to_dict()[column]
    if None in values and not missing:
        raise UserError(f"{where}: row {values.index(None)} has no {column}")
    return list(values)

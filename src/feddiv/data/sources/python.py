"""Data that are brought along in Python: one set of samples for each client.

Every item is read once, in order, into one array for all clients: uint8 pixels, or float32 for
feature vectors. That array is all the memory it takes. Data frames are read as tables are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np
import torch

from feddiv.core.archives import Arrays
from feddiv.core.errors import UserError
from feddiv.data.data_options import DataOptions
from feddiv.data.dataset import Dataset, Split
from feddiv.data.images.listing import ImageListing
from feddiv.data.names import is_split, one_spelling
from feddiv.data.sample_names import Numbered
from feddiv.data.sources.npz import Malformed, build_dataset, class_numbers
from feddiv.data.sources.python_items import ItemReader, Items, as_items, is_arrays, length
from feddiv.data.sources.python_samples import SampleReader, as_it_is
from feddiv.data.sources.table import from_table
from feddiv.data.sources.table_frames import Frame, FrameTable, is_frame
from feddiv.data.transform import AsTheyAre

if TYPE_CHECKING:
    from torch.utils.data import DataLoader
    from torch.utils.data import Dataset as TorchDataset

    # A torch or Hugging Face data set, a list of items, (X, y) or a data frame.
    ClientSamples = Any
    Clients = Sequence[ClientSamples] | Mapping[str, ClientSamples] | ClientSamples

TAKES: Final = frozenset({"size", "channels", "columns"})
LOOKED_AT = 8  # items that are read twice, to see whether they stay the same


def load(options: DataOptions) -> NoReturn:
    """There is nothing to load: whoever runs it has to bring the data."""
    raise UserError(
        "data.source=python: the data were given in Python; give them again, as in "
        "feddiv.run(config, clients=[...], test=...) or feddiv.resume(folder, clients=[...], ...)"
    )


def brought(
    clients: Clients | None,
    test: ClientSamples | None,
    classes: Sequence[str] | None,
    options: DataOptions | None = None,
) -> Dataset | ImageListing | None:
    """The clients' data as one, and what was brought to test on; None where nothing was.

    Labels are class numbers, or names.
    """
    options = options or DataOptions(source="python")
    if clients is None:
        if test is not None or classes is not None:
            raise UserError("test= and classes= belong to clients=, which is missing")
        return None
    if is_frame(clients):
        return _from_frames([Frame("clients", clients)], test, classes, options)
    named = _named(clients)
    frames = [name for name, each in named.items() if is_frame(each)]
    if not frames:
        return _from_items(named, test, classes, options)
    for name, each in named.items():
        if name not in frames:
            raise UserError(
                f"client {name!r} is a {type(each).__name__} and client {frames[0]!r} a data "
                "frame; give all clients in one form"
            )
    parts = [Frame(f"client {name!r}", each, client=name) for name, each in named.items()]
    return _from_frames(parts, test, classes, options)


def _from_frames(
    frames: list[Frame],
    test: ClientSamples | None,
    classes: Sequence[str] | None,
    options: DataOptions,
) -> Dataset | ImageListing:
    if test is not None and not is_frame(test):
        raise UserError(f"test is a {type(test).__name__}; give a data frame, as for the clients")
    if test is not None:
        split = options.columns.split or "split"
        frames = [
            Frame(each.where, each.data, each.client, None if split in each.columns else "train")
            for each in frames
        ]
        frames.append(Frame("test", test, split="test"))
    table = FrameTable(frames, options.columns)
    options = options.model_copy(update={"test_share": 0.0})
    data = from_table(table, options, "python", classes)
    if data.holder is None:
        raise UserError(
            "clients is one data frame without a column 'client'; set data.columns.client, or "
            "give a list of frames, one for each client"
        )
    return data


def _from_items(
    named: Mapping[str, ClientSamples],
    test: ClientSamples | None,
    classes: Sequence[str] | None,
    options: DataOptions,
) -> Dataset:
    for role in ("client", "split", "true_label"):
        value = getattr(options.columns, role)
        if value is not None:
            raise UserError(f"data.columns.{role}={value}: is for data frames, and these are none")
    reader = ItemReader(SampleReader.of(options), options.columns)
    sets = {f"client {name!r}": as_items(each, f"client {name!r}") for name, each in named.items()}
    inputs, labels = reader.read(sets)
    arrays: Arrays = {"x": inputs, "y": labels}
    if test is not None:
        arrays["x_test"], arrays["y_test"] = reader.read(
            {"test": as_items(test, "test")}, like=inputs
        )
    classes = _class_names(sets, reader) if classes is None else classes
    if classes is not None:
        arrays["classes"] = np.array([str(name) for name in classes], dtype=np.str_)
    try:
        dataset = build_dataset(arrays, "python", test_share=0.0)
    except Malformed as error:
        raise UserError(f"clients (x, y) and test (x_test, y_test): {error}") from None
    sizes = [length(each, where) for where, each in sets.items()]
    holder = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    own = Numbered(np.concatenate([np.arange(size) for size in sizes]))  # each client's from 0
    return replace(dataset, names=own).held_by(tuple(named), holder)


def _class_names(sets: Mapping[str, Items], reader: ItemReader) -> list[str] | None:
    """Those that Hugging Face data sets have for their labels, if all have the same."""
    found: list[list[str] | None] = []
    for where, each in sets.items():
        features = getattr(each, "features", None)
        if not isinstance(features, Mapping):
            return None
        kind = features[reader.key("label", features, where)]
        found.append(getattr(kind, "names", None))
    return found[0] if all(names == found[0] for names in found) else None


def as_they_are(
    data: TorchDataset[Any] | DataLoader[Any],
    classes: tuple[str, ...],
    each: Callable[[torch.Tensor], torch.Tensor] | None,
    where: str,
) -> Dataset:
    """A data set, or that of a loader, whose items are (what a net eats, label); all are read."""
    dataset: Any = data.dataset if isinstance(data, torch.utils.data.DataLoader) else data
    if isinstance(dataset, torch.utils.data.IterableDataset):
        raise UserError(
            f"{where}: a {type(dataset).__name__} is read in passing; give a data set whose items "
            "have numbers, as labels are judged one by one, round after round"
        )
    reader = ItemReader(as_it_is)
    inputs, labels = reader.read({where: dataset})
    first = torch.utils.data.Subset(dataset, range(min(len(inputs), LOOKED_AT)))
    again, _ = reader.read({where: first}, like=inputs)
    if not np.array_equal(again, inputs[: len(again)]):
        raise UserError(
            f"{where}: an item is not the same when it is read again; give the data without random "
            "changes, and these as train_transform"
        )
    try:
        numbers = class_numbers("it", labels, classes)
    except Malformed as error:
        raise UserError(f"{where}: {error}") from None
    own = AsTheyAre(each=each)
    train = Split(torch.from_numpy(inputs), torch.from_numpy(numbers))
    if each is not None:
        own.augmented(train.inputs[:1], torch.Generator())  # to be refused now, not in training
    return Dataset(
        name="own",
        classes=classes,
        train=train,
        test=train.chosen(torch.arange(0)),
        mean=own.mean,
        std=own.std,
        augment=own.augment,
        truth=None,
        own=own,
    )


def _named(clients: Clients) -> dict[str, ClientSamples]:
    """The clients by their names; numbers where they have none."""
    if is_arrays(clients):
        raise UserError("clients is one pair (X, y); give a list of them, one for each client")
    if isinstance(clients, Mapping):
        named = {}
        for name, each in clients.items():
            text = str(name).strip()  # as cells of tables are
            if not text:
                raise UserError(f"clients has the name {name!r}; give every client a name")
            if text in named:
                raise UserError(f"clients has the name {text!r} twice")
            named[text] = each
        spelled = one_spelling(named, "clients: name")
        named = {spelled[name]: each for name, each in named.items()}
    elif isinstance(clients, Sequence) and not isinstance(clients, str):
        named = {str(number): each for number, each in enumerate(clients)}
    else:
        raise UserError(
            f"clients is a {type(clients).__name__}; give a list of data sets, or names and sets"
        )
    if not named:
        raise UserError("clients is empty: give one data set for each client")
    if len(named) > 1 and all(is_split(name) for name in named):
        raise UserError(
            f"clients has the names {', '.join(named)}, which are splits; give one data set for "
            "each client, and the test set as test="
        )
    return named

"""Torch data sets, one for each client, brought along in Python.

Every item is read once, in order, into one array for all clients: uint8 pixels, or float32 for
feature vectors. That array is all the memory it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from feddiv.core.archives import Arrays, described
from feddiv.core.errors import UserError
from feddiv.data.data_options import DataOptions
from feddiv.data.dataset import Dataset, Split
from feddiv.data.names import one_spelling
from feddiv.data.sources.npz import Malformed, build_dataset, class_numbers
from feddiv.data.transform import AsTheyAre

if TYPE_CHECKING:
    from torch.utils.data import DataLoader
    from torch.utils.data import Dataset as TorchDataset

    Clients = Sequence[TorchDataset[Any]] | Mapping[str, TorchDataset[Any]]

CHANNELS = (1, 3, 4)
Convert = Callable[[Any, str], npt.NDArray[Any]]  # a sample, and words that say where it is
LOOKED_AT = 8  # items that are read twice, to see whether they stay the same


def load(options: DataOptions) -> NoReturn:
    """There is nothing to load: whoever runs it has to bring the data."""
    raise UserError(
        "data.source=python: the data were given in Python; give them again, as in "
        "feddiv.run(config, clients=[...], test=...) or feddiv.resume(folder, clients=[...], ...)"
    )


def brought(
    clients: Clients | None,
    test: TorchDataset[Any] | None,
    classes: Sequence[str] | None,
) -> Dataset | None:
    """The clients' data sets as one, and what was brought to test on; None where nothing was.

    An item is (image or vector, label). Labels are class numbers, or names.
    """
    if clients is None:
        if test is not None or classes is not None:
            raise UserError("test= and classes= belong to clients=, which is missing")
        return None
    named = _named(clients)
    sets = {f"client {name!r}": each for name, each in named.items()}
    inputs, labels = _read(sets)
    arrays: Arrays = {"x": inputs, "y": labels}
    if test is not None:
        arrays["x_test"], arrays["y_test"] = _read({"test": test}, like=inputs)
    if classes is not None:
        arrays["classes"] = np.array([str(name) for name in classes], dtype=np.str_)
    try:
        dataset = build_dataset(arrays, "python", test_share=0.0)
    except Malformed as error:
        raise UserError(f"clients (x, y) and test (x_test, y_test): {error}") from None
    sizes = [_length(each, where) for where, each in sets.items()]
    holder = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    return dataset.held_by(tuple(named), holder)


def as_they_are(
    data: TorchDataset[Any] | DataLoader[Any],
    classes: tuple[str, ...],
    each: Callable[[torch.Tensor], torch.Tensor] | None,
    where: str,
) -> Dataset:
    """A data set, or that of a loader, whose items are (what a net eats, label); all are read."""
    dataset: TorchDataset[Any] = (
        data.dataset if isinstance(data, torch.utils.data.DataLoader) else data
    )
    if isinstance(dataset, torch.utils.data.IterableDataset):
        raise UserError(
            f"{where}: a {type(dataset).__name__} is read in passing; give a data set whose items "
            "have numbers, as labels are judged one by one, round after round"
        )
    inputs, labels = _read({where: dataset}, convert=_floats)
    first = torch.utils.data.Subset(dataset, range(min(len(inputs), LOOKED_AT)))
    again, _ = _read({where: first}, like=inputs, convert=_floats)
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


def _floats(sample: Any, where: str) -> npt.NDArray[np.float32]:
    """float32, of the shape it has."""
    array = sample.detach().cpu().float().numpy() if isinstance(sample, torch.Tensor) else sample
    floating = isinstance(array, np.ndarray) and array.dtype.kind == "f"
    if not floating or (isinstance(sample, torch.Tensor) and not sample.is_floating_point()):
        kind = f"{sample.dtype} " if isinstance(sample, torch.Tensor | np.ndarray) else ""
        raise UserError(
            f"{where} is a {kind}{type(sample).__name__}; "
            "give what the net eats, a tensor of floats"
        )
    return _finite(np.asarray(array, np.float32), where)


def _named(clients: Clients) -> dict[str, TorchDataset[Any]]:
    if isinstance(clients, Mapping):
        named = {}
        for name, each in clients.items():
            if str(name) in named:
                raise UserError(f"clients has the name {str(name)!r} twice, as text and as number")
            named[str(name)] = each
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
    return named


def _length(dataset: TorchDataset[Any], where: str) -> int:
    try:
        return len(dataset)  # type: ignore[arg-type]
    except TypeError:
        raise UserError(
            f"{where}: a {type(dataset).__name__} has no length; give a data set of numbered items"
        ) from None


def _read(
    sets: Mapping[str, TorchDataset[Any]],
    like: npt.NDArray[Any] | None = None,
    convert: Convert | None = None,
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Inputs [N, ...] and labels [N] of all items, each converted and put into place at once."""
    total = sum(_length(dataset, where) for where, dataset in sets.items())
    inputs = None if like is None else np.empty((total, *like.shape[1:]), like.dtype)
    labels: list[int | str] = []
    for where, item in _items(sets):
        if not isinstance(item, tuple | list) or len(item) < 2:
            raise UserError(f"{where} is a {type(item).__name__}, not (image or vector, label)")
        sample = (convert or _sample)(item[0], where)
        if inputs is None:
            inputs = np.empty((total, *sample.shape), sample.dtype)
        if sample.shape != inputs.shape[1:] or sample.dtype != inputs.dtype:
            raise UserError(
                f"{where} is {described(sample)}, where the first one is "
                f"{inputs.dtype} {list(inputs.shape[1:])}; all have to be alike"
            )
        inputs[len(labels)] = sample
        labels.append(_label(item[1], where))
    if inputs is None:
        raise UserError(f"{' and '.join(sets)}: no items")
    if len({type(label) for label in labels}) > 1:
        raise UserError(f"{next(iter(sets))} …: labels are numbers here and names there")
    return inputs, np.array(labels)


def _items(sets: Mapping[str, TorchDataset[Any]]) -> Iterator[tuple[str, Any]]:
    """Every item with words that say where it is."""
    for where, dataset in sets.items():
        for number in range(_length(dataset, where)):
            try:
                item = dataset[number]
            except Exception as problem:
                said = str(problem).strip().splitlines()
                reason = f"{type(problem).__name__}: {said[0] if said else ''}"
                raise UserError(f"{where}, item {number} cannot be read ({reason})") from problem
            yield f"{where}, item {number}", item


def _sample(sample: Any, where: str) -> npt.NDArray[Any]:
    """uint8 [H,W,C] or float32 [D]."""
    channels_first = isinstance(
        sample, torch.Tensor
    )  # torch's way; numpy and Pillow have them last
    if isinstance(sample, Image.Image):
        if sample.mode[0] in "IF":
            raise UserError(f"{where} is an image of mode {sample.mode}; give 8 bits a channel")
        sample = sample.convert("L" if sample.mode in ("1", "L") else "RGB")
    elif isinstance(sample, torch.Tensor):
        sample = sample.detach().cpu()
        sample = sample.float() if sample.dtype == torch.bfloat16 else sample
    elif not isinstance(sample, np.ndarray):
        raise UserError(
            f"{where} is a {type(sample).__name__}; give a PIL image, an array or a tensor"
        )
    array = np.asarray(sample)
    if array.dtype.kind == "f":
        _finite(array.astype(np.float32), where)
    if array.ndim == 1 and array.dtype.kind == "f":
        return array.astype(np.float32)
    if array.ndim not in (2, 3) or (array.dtype != np.uint8 and array.dtype.kind != "f"):
        raise UserError(
            f"{where} is {described(array)}; give an image (uint8, or float from 0 to 1) "
            "or a vector (float)"
        )
    return _pixels(_channels_last(array, where, first=channels_first), where)


def _finite(array: npt.NDArray[np.float32], where: str) -> npt.NDArray[np.float32]:
    if not np.isfinite(array).all():
        raise UserError(f"{where} holds a value that is not finite in float32")
    return array


def _channels_last(array: npt.NDArray[Any], where: str, *, first: bool) -> npt.NDArray[Any]:
    """[H,W,C]; channels are where there are 1, 3 or 4 of them, `first` decides if both ends do."""
    if array.ndim == 2:
        return array[..., None]
    ends = (array.shape[0] in CHANNELS, array.shape[2] in CHANNELS)
    if not any(ends):
        raise UserError(f"{where} is {described(array)}; an image has 1, 3 or 4 channels")
    leading = ends[0] and (first or not ends[1])
    return np.moveaxis(array, 0, 2) if leading else array


def _pixels(image: npt.NDArray[Any], where: str) -> npt.NDArray[np.uint8]:
    if image.dtype == np.uint8:
        return image
    low, high = float(image.min(initial=0)), float(image.max(initial=0))
    if low < 0 or high > 1:
        raise UserError(
            f"{where} has pixels from {low:.3g} to {high:.3g}; give them from 0 to 1, "
            "before they are normalised: that is done later"
        )
    return np.asarray(np.rint(image * 255), dtype=np.uint8)


def _label(label: Any, where: str) -> int | str:
    if isinstance(label, torch.Tensor | np.ndarray | np.generic) and label.ndim == 0:
        label = label.item()
    if isinstance(label, bool) or not isinstance(label, int | str):
        raise UserError(f"{where} has the label {label!r}; give a class number or a name")
    return label

"""Items that were brought along in Python: from numbered (sample, label) pairs to two arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import torch

from feddiv.core.archives import described
from feddiv.core.errors import UserError, in_one_line
from feddiv.data.data_options import USUAL_COLUMNS, Columns
from feddiv.data.sources.table_frames import is_frame

# How items that are dicts call the two, where data.columns does not say.
SAMPLE_KEYS: Final = (*USUAL_COLUMNS["image"], "img", "features")
LABEL_KEYS: Final = (*USUAL_COLUMNS["label"], "labels", "target")

Convert = Callable[[Any, str], npt.NDArray[Any]]  # a sample, and words that say where it is


class Items(Protocol):
    """Anything with a length whose items have numbers: a torch data set, Hugging Face's, a list.

    An item is (sample, label), or a dict of them.
    """

    def __len__(self) -> int: ...

    def __getitem__(self, number: int, /) -> Any: ...


@dataclass(frozen=True, eq=False)
class Pairs:
    """The rows of X and y as items."""

    inputs: Any
    labels: Any

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, number: int) -> tuple[Any, Any]:
        return self.inputs[number], self.labels[number]


def is_arrays(data: Any) -> bool:
    """Whether something is (X, y): rows of numbers, and what is no second table of them."""
    if not isinstance(data, tuple | list) or len(data) != 2:
        return False
    return isinstance(data[0], np.ndarray | torch.Tensor) or (
        is_frame(data[0]) and not is_frame(data[1])
    )


def as_items(data: Any, where: str) -> Items:
    """What somebody gave for one client, as items; `where` names it in errors."""
    if is_arrays(data):
        return _pairs(data[0], data[1], where)
    if isinstance(data, str | Mapping) or not hasattr(data, "__getitem__"):
        raise UserError(
            f"{where} is a {type(data).__name__}; give a torch data set, a Hugging Face data set, "
            "a list of items, (X, y) arrays or a data frame"
        )
    items: Items = data
    return items


def _pairs(inputs: Any, labels: Any, where: str) -> Pairs:
    if is_frame(inputs):
        inputs = np.asarray(inputs)
    if not isinstance(labels, np.ndarray | torch.Tensor | list):
        labels = np.asarray(labels)
    if inputs.ndim < 2 or str(inputs.dtype) == "object":
        raise UserError(
            f"{where}: X is {described(inputs)}; give vectors [N, D] of numbers, or images [N, ...]"
        )
    if not isinstance(labels, list) and labels.ndim != 1:
        raise UserError(f"{where}: y is {described(labels)}; give one label a row, [N]")
    if len(labels) != len(inputs):
        raise UserError(f"{where}: X has {len(inputs)} rows and y {len(labels)} labels")
    if inputs.ndim == 2:  # vectors: whole numbers are features too
        inputs = np.asarray(inputs)
        inputs = inputs.astype(np.float32) if inputs.dtype.kind in "iub" else inputs
    return Pairs(inputs, labels)


def length(items: Items, where: str) -> int:
    """How many items there are."""
    try:
        return len(items)
    except TypeError:
        raise UserError(
            f"{where}: a {type(items).__name__} has no length; give a data set of numbered items"
        ) from None


@dataclass(frozen=True)
class ItemReader:
    """How items become arrays: `convert` for samples, `columns` names the entries of dicts."""

    convert: Convert
    columns: Columns = field(default_factory=Columns)

    def read(
        self, sets: Mapping[str, Items], like: npt.NDArray[Any] | None = None
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Inputs [N, ...] and labels [N] of all items, each converted and put into place at once.

        All have to be alike, and like the rows of `like`.
        """
        total = sum(length(items, where) for where, items in sets.items())
        inputs = None if like is None else np.empty((total, *like.shape[1:]), like.dtype)
        labels: list[int | str] = []
        for where, item in _numbered(sets):
            given, label = self.halves(item, where)
            sample = self.convert(given, where)
            if inputs is None:
                inputs = np.empty((total, *sample.shape), sample.dtype)
            if sample.shape != inputs.shape[1:] or sample.dtype != inputs.dtype:
                raise UserError(
                    f"{where} is {described(sample)}, where the first one is "
                    f"{inputs.dtype} {list(inputs.shape[1:])}; all have to be alike "
                    "(data.size resizes PIL images)"
                )
            inputs[len(labels)] = sample
            labels.append(_label(label, where))
        if inputs is None:
            raise UserError(f"{' and '.join(sets)}: no items")
        if len({type(label) for label in labels}) > 1:
            raise UserError(f"{next(iter(sets))} …: labels are numbers here and names there")
        return inputs, np.array(labels)

    def halves(self, item: Any, where: str) -> tuple[Any, Any]:
        """Sample and label of an item."""
        if isinstance(item, Mapping):
            return item[self.key("sample", item, where)], item[self.key("label", item, where)]
        if not isinstance(item, tuple | list) or len(item) < 2:
            raise UserError(
                f"{where} is a {type(item).__name__}, not (image or vector, label) and no dict "
                "with 'image' or 'features', and 'label'"
            )
        return item[0], item[1]

    def key(self, half: str, item: Mapping[Any, Any], where: str) -> str:
        """What a dict calls its sample, or its label."""
        columns = self.columns
        usual, wanted = LABEL_KEYS, columns.label
        if half == "sample":
            features = columns.features if isinstance(columns.features, str) else None
            usual, wanted = SAMPLE_KEYS, columns.image or features
        allowed = usual if wanted is None else (wanted,)
        found = next((name for name in allowed if name in item), None)
        if found is None:
            todo = "set data.columns.label"
            if half == "sample":
                texts = USUAL_COLUMNS["text"] if columns.text is None else (columns.text,)
                todo = "set data.columns.image or .features"
                if any(name in item for name in texts):
                    todo = "texts are taken from data frames: give data.to_pandas()"
            raise UserError(
                f"{where} has no {' or '.join(map(repr, allowed))}, only "
                f"{', '.join(repr(name) for name in item)}; {todo}"
            )
        return found


def _numbered(sets: Mapping[str, Items]) -> Iterator[tuple[str, Any]]:
    """Every item with words that say where it is."""
    for where, items in sets.items():
        for number in range(length(items, where)):
            try:
                item = items[number]
            except Exception as problem:
                reason = in_one_line(problem)
                raise UserError(f"{where}, item {number} cannot be read ({reason})") from problem
            yield f"{where}, item {number}", item


def _label(label: Any, where: str) -> int | str:
    if isinstance(label, torch.Tensor | np.ndarray | np.generic) and label.ndim == 0:
        label = label.item()
    if isinstance(label, bool) or not isinstance(label, int | str):
        raise UserError(f"{where} has the label {label!r}; give a class number or a name")
    return label

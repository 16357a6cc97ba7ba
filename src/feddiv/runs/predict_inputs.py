"""Samples to predict from files: images or texts, folders of them, tables, arrays."""

import os
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from feddiv.core.archives import read_npy, read_npz
from feddiv.core.errors import UserError, in_one_line
from feddiv.data.images.pixels import MODES, image_suffixes, pixels
from feddiv.data.sources.folder_tree import DEEPEST
from feddiv.data.sources.table_cells import Table
from feddiv.data.sources.table_files import TABLES, read_table
from feddiv.data.texts.files import SUFFIX
from feddiv.learning.predict import CHUNK
from feddiv.runs.model_card import ModelCard
from feddiv.runs.predict_columns import feature_columns, image_column
from feddiv.runs.predict_texts import file_texts, table_texts

ARRAYS: Final = (".npz", ".npy")

Pixels = npt.NDArray[np.uint8]
Skipped = Callable[[str], None]


@dataclass(frozen=True)
class Chunk:
    """Some samples, ready for a model, and what to call each of them."""

    names: Sequence[str]
    inputs: npt.NDArray[Any] | list[str]


def read_inputs(paths: Sequence[Path], card: ModelCard, skipped: Skipped) -> Iterator[Chunk]:
    """The samples at these paths, for the model of this card.

    Images are converted to the model's channels and size; `skipped` is told, in one line each,
    of those that cannot be read. Arrays and feature vectors are taken as they are. Of several
    paths, names of samples begin with theirs.
    """
    for path in paths:
        if not path.exists():
            raise UserError(f"--data {path}: there is no such file or folder")
    found = 0
    for path in paths:
        for chunk in _read(path, card, skipped):
            found += len(chunk.names)
            several = len(paths) > 1
            names = [_full(path, name) for name in chunk.names] if several else chunk.names
            yield Chunk(names, chunk.inputs)
    if not found:
        said = ", ".join(map(str, paths[:3])) + (", …" if len(paths) > 3 else "")
        kind = "text" if card.takes_texts else "image"
        raise UserError(f"--data {said}: no {kind} in it that can be read")


def _full(path: Path, name: str) -> str:
    if path.is_dir():
        return str(path / name)
    rows = path.suffix.lower() in (*ARRAYS, *TABLES)
    return f"{path}:{name}" if rows else str(path)


def _read(path: Path, card: ModelCard, skipped: Skipped) -> Iterator[Chunk]:
    if path.suffix in ARRAYS:
        yield _array(path)
    elif path.suffix.lower() in TABLES and not path.is_dir():
        yield from _table(read_table(path, f"--data {path}"), card, skipped)
    elif card.takes_texts:
        yield from _texts(file_texts(_named(path, {SUFFIX}), skipped))
    elif not card.takes_images or card.sample_shape[-1] not in MODES:
        raise UserError(
            f"--data {path}: this model takes samples of shape {card.input_shape}, not images; "
            "give a table (.csv, .parquet), an .npz file with an array 'x', or an .npy file"
        )
    else:
        yield from _chunks(_images(_named(path, image_suffixes()), card, skipped))


def _array(path: Path) -> Chunk:
    if path.suffix == ".npz":
        arrays = read_npz(path, "--data")
        if "x" not in arrays:
            raise UserError(f"--data {path}: array 'x' is missing, found {sorted(arrays)}")
        inputs = arrays["x"]
    else:
        inputs = read_npy(path, "--data")
    if inputs.ndim == 0 or inputs.size == 0:
        raise UserError(f"--data {path}: holds no samples ({inputs.dtype} {list(inputs.shape)})")
    return Chunk([str(row) for row in range(len(inputs))], inputs)


def _table(table: Table, card: ModelCard, skipped: Skipped) -> Iterator[Chunk]:
    """Feature vectors by their columns, texts of a column, or the images that a column names."""
    if card.takes_texts:
        texts = table_texts(table, card)
        yield from _texts((str(row), text) for row, text in enumerate(texts))
        return
    if not card.takes_images:
        vectors = table.vectors(feature_columns(table, card))
        yield Chunk([str(row) for row in range(len(vectors))], vectors)
        return
    (paths,) = table.texts([image_column(table, card)])
    named = [(path, table.folder / path) for path in paths]
    yield from _chunks(_images(named, card, skipped))


def _images(
    named: Sequence[tuple[str, Path]], card: ModelCard, skipped: Skipped
) -> Iterator[tuple[str, Pixels]]:
    height, width, channels = card.sample_shape
    for name, file in named:
        try:
            image = pixels(file, height, width, channels)
        except Exception as problem:  # Pillow raises whatever its decoders stumble over
            skipped(f"{file}: cannot be read, left out ({in_one_line(problem)})")
            continue
        yield name, image


def _named(path: Path, endings: Container[str]) -> list[tuple[str, Path]]:
    """The file, or those in the folder that end so, by their paths from there."""
    if not path.is_dir():
        return [(path.name, path)]
    files = [file for file in _below(path) if file.is_file() and not file.name.startswith(".")]
    found = sorted(file for file in files if file.suffix.lower() in endings)
    return [(str(file.relative_to(path)), file) for file in found]


def _below(path: Path) -> Iterator[Path]:
    """Everything in a folder and the folders in it; links to folders are not followed."""
    waiting = [(path, 0)]
    while waiting:
        folder, depth = waiting.pop()
        if depth > DEEPEST:
            raise UserError(f"--data {path}: folders are more than {DEEPEST} deep")
        try:
            with os.scandir(folder) as entries:
                found = list(entries)
        except OSError as error:
            raise UserError(f"--data {folder}: cannot be read ({error.strerror})") from None
        for entry in found:
            yield folder / entry.name
            if entry.is_dir(follow_symlinks=False):
                waiting.append((folder / entry.name, depth + 1))


def _texts(texts: Iterable[tuple[str, str]]) -> Iterator[Chunk]:
    waiting = iter(texts)
    while batch := list(islice(waiting, CHUNK)):
        yield Chunk([name for name, _ in batch], [text for _, text in batch])


def _chunks(images: Iterator[tuple[str, Pixels]]) -> Iterator[Chunk]:
    batch: list[tuple[str, Pixels]] = []
    for image in images:
        batch.append(image)
        if len(batch) == CHUNK:
            yield _stacked(batch)
            batch = []
    if batch:
        yield _stacked(batch)


def _stacked(batch: list[tuple[str, Pixels]]) -> Chunk:
    return Chunk([name for name, _ in batch], np.stack([image for _, image in batch]))
